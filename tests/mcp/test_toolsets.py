"""Which tools a client sees, and that the toolsets of a key are all it may use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError

from engram.embedding.choice import NoEmbedder
from engram.errors import InvalidRequestError
from engram.mcp.tools import TOOLS, tools_of
from engram.model.access import (
    DEFAULT_TOOLSETS,
    KEY_SCOPES,
    TOOLSETS,
    KeyDraft,
    KeyScope,
    Toolset,
    parse_toolsets,
)
from engram.settings import Settings
from tests.mcp.connecting import (
    RunningServer,
    call,
    http_client,
    legacy_sse_client,
    local_process,
    refusal,
    relay_process,
    running_server,
)
from tests.promises import promise

Way = Literal["http", "http-handshake", "sse", "relay", "relay-handshake"]

SETTING: tuple[Toolset, ...] = ("maintenance",)


@pytest.fixture
async def chosen(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server whose setting names other toolsets than the default."""
    settings = Settings(
        home=tmp_path / "chosen", embedder=NoEmbedder(), rate_limit=0, toolsets=SETTING
    )
    async with running_server(settings) as running:
        yield running


def connected(
    way: Way, url: str, key: str, *, toolsets: str | None = None
) -> AbstractAsyncContextManager[Client]:
    """Return a client that asks for `toolsets`, in the way its transport has for it."""
    query = "" if toolsets is None else f"?toolsets={toolsets}"
    settings = {} if toolsets is None else {"TOOLSETS": toolsets}
    match way:
        case "http":
            return http_client(url, key, query=query)
        case "http-handshake":
            return http_client(url, key, mode="legacy", query=query)
        case "sse":
            return legacy_sse_client(url, key, query=query)
        case "relay":
            return Client(relay_process(url, key, **settings))
        case "relay-handshake":
            return Client(relay_process(url, key, **settings), mode="legacy")


async def key_with(server: RunningServer, toolsets: tuple[Toolset, ...], *scopes: KeyScope) -> str:
    principal = await server.service.access.authenticate(server.key)
    draft = KeyDraft(name="own", toolsets=toolsets, scopes=scopes or ("read",))
    return (await server.service.access.create_key(principal, draft)).secret


async def shown(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


def names_of(*toolsets: Toolset) -> list[str]:
    return [tool.name for tool in TOOLS if tool.is_listed and tool.toolset in toolsets]


@pytest.mark.parametrize("way", ["http", "http-handshake", "sse", "relay", "relay-handshake"])
async def test_a_connection_chooses_among_its_keys_toolsets_and_a_key_wins_over_the_setting(
    chosen: RunningServer, way: Way
) -> None:
    own = await key_with(chosen, ("notes", "memories"))

    async with connected(way, chosen.url, chosen.key) as client:
        by_setting = await shown(client)
    async with connected(way, chosen.url, own) as client:
        by_key = await shown(client)
    async with connected(way, chosen.url, own, toolsets="memories") as client:
        by_connection = await shown(client)

    assert by_setting == names_of(*SETTING)
    assert by_key == names_of("notes", "memories")
    assert by_connection == names_of("memories")


async def test_conversations_and_notes_are_shown_by_default(client: Client) -> None:
    listed = await client.list_tools()

    assert [tool.name for tool in listed.tools] == names_of("conversations", "notes")
    assert listed.next_cursor is None
    assert DEFAULT_TOOLSETS == ("conversations", "notes")


@pytest.mark.parametrize("toolsets", ["conversations", "memories", "notes,conversations"])
async def test_a_process_shows_what_its_flag_names(tmp_path: Path, toolsets: str) -> None:
    process = local_process(tmp_path, TOOLSETS="maintenance")
    process.args = [*process.args, "--toolsets", toolsets]

    async with Client(process) as client:
        assert await shown(client) == names_of(*parse_toolsets(toolsets))


async def test_a_hidden_tool_can_be_called_as_far_as_the_scopes_go(server: RunningServer) -> None:
    reader = await server.new_key("read")

    async with http_client(server.url, reader, query="?toolsets=maintenance") as client:
        listed = await call(client, "list_conversations")
        refused = await refusal(client, "create_conversation")

    assert listed["total"] == 0
    assert refused == {"code": "insufficient_scope", "required": "write"}


@promise("scopes")
@pytest.mark.parametrize("way", ["http", "http-handshake", "sse", "relay"])
async def test_a_key_may_call_no_tool_outside_of_its_toolsets(
    server: RunningServer, way: Way
) -> None:
    narrow = await key_with(server, ("notes",), *KEY_SCOPES)

    async with connected(way, server.url, narrow) as client:
        refused = [(await refusal(client, tool.name)) for tool in TOOLS if tool.toolset != "notes"]
        listed = await call(client, "list_entries")

    assert {facts["code"] for facts in refused} == {"toolset_denied"}
    assert {facts["toolset"] for facts in refused} == set(TOOLSETS) - {"notes"}
    assert listed["total"] == 0


@promise("scopes")
async def test_a_key_may_read_no_resource_outside_of_its_toolsets(server: RunningServer) -> None:
    narrow = await key_with(server, ("notes",), *KEY_SCOPES)
    uris = [f"engram://{kind}/x" for kind in ("conversations", "memories", "documents")]

    async with http_client(server.url, narrow) as client:
        for uri in uris:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert refused.value.error.data["code"] == "toolset_denied"
        with pytest.raises(MCPError) as refused:
            await client.list_resources()

    assert refused.value.error.data == {"code": "toolset_denied", "toolset": "conversations"}


@promise("scopes")
async def test_a_connection_that_asks_for_more_than_its_key_may_use_is_refused(
    server: RunningServer,
) -> None:
    narrow = await key_with(server, ("notes",))

    async with http_client(server.url, narrow, query="?toolsets=notes,memories") as client:
        with pytest.raises(MCPError) as refused:
            await client.list_tools()

    assert refused.value.error.data == {"code": "toolset_denied", "toolset": "memories"}


@pytest.mark.parametrize("way", ["http", "http-handshake", "sse"])
@pytest.mark.parametrize("asked", ["nonsense", "notes,nonsense", "", "notes,", "Notes"])
async def test_an_unknown_toolset_is_refused_with_the_known_names(
    server: RunningServer, way: Way, asked: str
) -> None:
    async with connected(way, server.url, server.key, toolsets=asked) as client:
        with pytest.raises(MCPError) as refused:
            await client.list_tools()

    assert refused.value.error.data["code"] == "invalid_request"
    assert all(toolset in refused.value.error.message for toolset in TOOLSETS)


@given(st.lists(st.sampled_from(TOOLSETS), min_size=1))
def test_the_order_of_tools_does_not_depend_on_how_they_are_asked_for(asked: list[Toolset]) -> None:
    parsed = parse_toolsets(" , ".join(asked))

    positions = [TOOLS.index(tool) for tool in tools_of(parsed)]
    assert set(parsed) == set(asked)
    assert positions == sorted(positions)
    assert parsed == parse_toolsets(",".join(sorted(asked)))


@pytest.mark.parametrize(
    ("toolsets", "field", "words"),
    [((), "toolsets", "empty"), (("songs",), "toolsets[0]", "maintenance")],
)
def test_a_key_refuses_toolsets_that_do_not_exist(
    toolsets: tuple[Toolset, ...], field: str, words: str
) -> None:
    with pytest.raises(InvalidRequestError, match=words) as refused:
        KeyDraft(name="own", toolsets=toolsets)

    assert refused.value.field == field

"""What went wrong around engram-go's tools, its embedder, its secrets and its restarts: not here.

The numbers are those of its lessons (4.2), and of its contradictions about documents (3.5), in the
notes on the seeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.mcp.tools import TOOLS
from engram.settings import Settings
from tests.cli.commands import Engram
from tests.mcp.connecting import HANDSHAKE, http_client
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, connect, new_key, refusal
from tests.seeds.house import opened_house
from tests.service.embedders import NamedEmbedder
from tests.serving import serving
from tools.docs import all_commands

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

HARBOUR = "The harbour opens at six."
SECRET = "engram_sk_live_never-to-be-shown-by-any-help"


class SilentEmbedder(NamedEmbedder):
    """Never comes back with the vectors of a passage."""

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        await asyncio.Event().wait()
        return await super().embed_passages(passages)


async def test_lesson_2_storing_does_not_wait_for_an_embedder_that_hangs(tmp_path: Path) -> None:
    async with opened_house(tmp_path, deep=SilentEmbedder("silent")) as house:
        with anyio.fail_after(60):
            kept = await house.keep(HARBOUR)
            recalled = await house.recall("harbour", profile="words")

        assert [each.memory.id for each in recalled.results] == [kept]
        assert recalled.pending == await house.pending() == 1


async def test_lesson_4_another_model_finds_by_words_and_says_so(tmp_path: Path) -> None:
    async with opened_house(tmp_path, deep=NamedEmbedder("maker/old")) as house:
        old = await house.keep(HARBOUR)
        await house.service.indexer.drain(house.principal.organization_id, limit_s=10)
        changed = house.with_embedder(NamedEmbedder("maker/new", dimensions=32))

        new = await changed.keep("The harbour closes at nine.")
        recalled = await changed.recall("harbour")

        assert {each.memory.id for each in recalled.results} == {old, new}
        assert "embedder_changed" in recalled.degraded


@pytest.mark.parametrize("header", ["X-Real-IP", "X-Forwarded-For", "Forwarded"])
@pytest.mark.parametrize("path", ["/setup-token", "/api/v1/keys", "/admin/organizations"])
async def test_lesson_10_no_address_opens_what_needs_a_key(
    tmp_path: Path, path: str, header: str
) -> None:
    app = create_app(Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN))
    async with app.lifespan(), connect(app) as local:
        answers = [
            await local.get(path, headers=headers) for headers in ({}, {header: "127.0.0.1"})
        ]

    assert [refusal(answer)[:2] for answer in answers] == [(401, "unauthenticated")] * 2


@promise("secrets")
@pytest.mark.parametrize("command", list(all_commands()))
def test_lesson_10_no_help_shows_a_secret_or_takes_one_as_a_flag(
    tmp_path: Path, command: str
) -> None:
    secrets = dict.fromkeys(
        ("api_key", "admin_token", "embedder_key", "language_model_key"), SECRET
    )

    shown = Engram(tmp_path)(*command.split()[1:], "--help", **secrets)

    assert shown.status == 0
    assert SECRET not in shown.stdout + shown.stderr
    for name in secrets:
        assert f"--{name.replace('_', '-')}" not in shown.stdout


@promise("hosts")
def test_lesson_10_a_server_is_reached_from_this_machine_alone_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path)

    assert (settings.host, settings.admin_token, settings.api_key) == ("127.0.0.1", None, None)


def test_lesson_10_no_tool_takes_an_address_to_connect_to() -> None:
    arguments = {name for tool in TOOLS for name in tool.input_schema["properties"]}

    assert not {name for name in arguments if "url" in name or "host" in name}


async def test_lesson_11_a_call_after_a_restart_needs_no_new_session(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN)
    first = create_app(settings)
    async with first.lifespan(), connect(first, ADMIN_TOKEN) as operator:
        key = await new_key(operator)

    for _ in range(2):
        app = create_app(settings)
        async with app.lifespan(), connect(app, key) as client:
            body: dict[str, Any] = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "list_conversations", "arguments": {"format": "full"}},
            }
            headers = {"MCP-Protocol-Version": HANDSHAKE}
            answer = await client.post("/mcp", json=body, headers=headers)

        assert answer.json()["result"]["structuredContent"]["total"] == 0


async def test_lesson_11_one_address_serves_clients_under_each_name_of_this_machine(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN)
    app = create_app(settings)
    async with serving(app) as url, connect(app, ADMIN_TOKEN) as operator:
        key = await new_key(operator)
        for host in ("127.0.0.1", "localhost"):
            async with http_client(url.replace("127.0.0.1", host), key) as client:
                assert (await client.list_tools()).tools


async def test_3_5_one_request_carries_a_document_of_more_than_two_mebibytes(
    tmp_path: Path,
) -> None:
    app = create_app(Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN))
    body = b"".join(b"Line %d of the log of the harbour.\n" % number for number in range(100_000))
    async with (
        app.lifespan(),
        connect(app, ADMIN_TOKEN) as operator,
        connect(app, await new_key(operator)) as api,
    ):
        made = await api.post("/api/v1/documents", content=body)
        read = await api.get(f"/api/v1/documents/{made.json()['document_id']}")

    assert len(body) > 2 * 1024 * 1024
    assert made.status_code == 201
    assert read.content == body

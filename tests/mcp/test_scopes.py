"""What each tool asks of a key, and that a key which may only write learns nothing.

The table names every tool: a new one cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from engram.embedding.choice import NoEmbedder
from engram.mcp.tools import TOOLS_BY_NAME
from engram.model.access import KEY_SCOPES, KeyScope
from engram.model.changes import ManyMemories
from engram.model.ids import MemoryId
from engram.settings import Settings
from tests.filling import filled
from tests.mcp.connecting import RunningServer, call, http_client, refusal, running_server
from tests.promises import promise

pytestmark = promise("scopes")

SECRET = "zanzibar"
PROJECT = "harbour"
"""Whose name the caller sends, so that it is no secret to them."""

LATER = "2099-01-01T00:00:00Z"
IN_PROJECT = {"project": PROJECT}


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments with which a key of these scopes, and no fewer, may call a tool."""

    scopes: tuple[KeyScope, ...]
    arguments: Mapping[str, Any]


MEMORY = {"memory_id": "{memory}", **IN_PROJECT}
EPISODE = {"episode_id": "{episode}", **IN_PROJECT}
MESSAGES = [{"role": "user", "content": "hello"}]

CASES: dict[str, Case] = {
    "append_messages": Case(
        ("write",), {"conversation_id": "{conversation}", "messages": MESSAGES}
    ),
    "create_conversation": Case(("write",), {}),
    "search": Case(("search",), {"query": SECRET}),
    "get_conversation": Case(("read",), {"conversation_id": "{conversation}"}),
    "list_conversations": Case(("read",), {}),
    "edit_conversation": Case(("write",), {"conversation_id": "{conversation}", "tags": ["new"]}),
    "delete_conversation": Case(("delete",), {"conversation_id": "{conversation}"}),
    "trash_list": Case(("read",), {}),
    "trash_restore": Case(("write", "delete"), {"id": "{conversation}"}),
    "store_note": Case(("write",), {"content": "The gate is blue."}),
    "fetch_context": Case(("search",), {"query": SECRET}),
    "list_entries": Case(("read",), {}),
    "remove_entry": Case(("delete",), {"entry_id": "{memory}"}),
    "memory_store": Case(("write",), {"content": "blue"}),
    "memory_store_batch": Case(("write",), {"memories": [{"content": "blue"}]}),
    "memory_recall": Case(("search",), {"query": SECRET, **IN_PROJECT}),
    "memory_fetch": Case(("read",), {"id": "{memory}", **IN_PROJECT}),
    "memory_list": Case(("read",), IN_PROJECT),
    "memory_history": Case(("read",), MEMORY),
    "memory_timeline": Case(("read",), {"as_of": "2020-01-01T00:00:00Z"}),
    "memory_connect": Case(
        ("write",), {"source_id": "{memory}", "target_id": "{other}", **IN_PROJECT}
    ),
    "memory_correct": Case(("write",), {"importance": 1, **MEMORY}),
    "memory_correct, ending it": Case(("write", "delete"), {"valid_to": LATER, **MEMORY}),
    "memory_correct, expiring it": Case(("write", "delete"), {"expires_at": LATER, **MEMORY}),
    "memory_forget": Case(("delete",), MEMORY),
    "memory_restore": Case(("write", "delete"), MEMORY),
    "memory_feedback": Case(("write",), {"memory_ids": ["{memory}"], **IN_PROJECT}),
    "memory_projects": Case(("read",), {}),
    "memory_status": Case(("read",), {}),
    "memory_quick_store": Case(("write",), {"content": "blue"}),
    "memory_query": Case(("search",), {"query": SECRET, **IN_PROJECT}),
    "memory_status_ping": Case(("read",), {}),
    "memory_store_document": Case(("write",), {"content": "blue"}),
    "memory_query_document": Case(("search",), {**MEMORY, "question": SECRET}),
    "memory_ingest_document_stream": Case(("write",), {"action": "start"}),
    "memory_summarize": Case(("read", "write"), MEMORY),
    "memory_consolidate": Case(("read", "write", "delete"), IN_PROJECT),
    "memory_consolidate, to look": Case(("read",), {"dry_run": True, **IN_PROJECT}),
    "memory_verify": Case(("read",), {}),
    "memory_migrate_embedder": Case(("admin",), {"new_model": "none"}),
    "memory_export_all": Case(("read", "write"), {"output_path": "export", **IN_PROJECT}),
    "memory_import_claudemd": Case(("write",), {"path": "CLAUDE.md"}),
    "memory_ingest": Case(("write",), {"path": "CLAUDE.md"}),
    "memory_dump": Case(("read",), IN_PROJECT),
    "memory_delete_project": Case(("delete",), {"confirm": PROJECT, **IN_PROJECT}),
    "project_merge": Case(("write", "admin"), {"into": "pier", **IN_PROJECT}),
    "undo_change": Case(("write",), {"change_id": "{ranking}"}),
    "undo_change, of a merge": Case(("write", "admin"), {"change_id": "{merge}"}),
    "memory_episode_start": Case(("write",), {"description": "blue"}),
    "memory_episode_end": Case(("write",), EPISODE),
    "memory_episode_list": Case(("read",), IN_PROJECT),
    "memory_episode_recall": Case(("read",), EPISODE),
}
"""By tool; after a comma stands what is special about a call."""


@dataclass(frozen=True, slots=True)
class House:
    """An organisation that holds the secret wherever text can be, and keys for it."""

    server: RunningServer
    ids: Mapping[str, str]

    def arguments(self, name: str) -> dict[str, Any]:
        return filled(dict(CASES[name].arguments), self.ids)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    files = tmp_path / "files"
    files.mkdir()
    settings = Settings(
        home=tmp_path / "server", embedder=NoEmbedder(), rate_limit=0, data_dir=files
    )
    async with running_server(settings) as server:
        owner = await server.service.access.authenticate(server.key)
        own = files / owner.organization_id
        own.mkdir()
        (own / "CLAUDE.md").write_text(f"# {SECRET}\n\n{SECRET}\n")
        async with http_client(server.url, server.key) as client:
            ids = await plant(client)
        ranked = await server.service.changes.change_memories(
            owner,
            ManyMemories(change="importance", importance=3, ids=(MemoryId(ids["other"]),)),
        )
        assert ranked.change_id is not None
        yield House(server, {**ids, "ranking": ranked.change_id})


async def plant(client: Client) -> dict[str, str]:
    """Store the secret wherever text can be, and return the ids of what holds it."""
    conversation = await call(
        client, "create_conversation", title=SECRET, tags=[SECRET], metadata={SECRET: SECRET}
    )
    ids = {"conversation": conversation["conversation_id"]}
    said = [{"role": "user", "content": SECRET, "name": SECRET, "metadata": {"n": SECRET}}]
    await call(client, "append_messages", conversation_id=ids["conversation"], messages=said)
    begun = await call(client, "memory_episode_start", description=SECRET, **IN_PROJECT)
    ids["episode"] = begun["episode_id"]
    for name in ("memory", "other"):
        stored = await call(
            client, "memory_store", content=f"{SECRET} of {name}", tags=[SECRET], **IN_PROJECT
        )
        ids[name] = stored["id"]
    await call(client, "memory_store", content=f"{SECRET} of a project", project="quay")
    merged = await call(client, "project_merge", project="quay", into="pier")
    return {**ids, "merge": merged["change_id"]}


def test_every_tool_is_in_the_table() -> None:
    assert {name.partition(",")[0] for name in CASES} == set(TOOLS_BY_NAME)


@pytest.mark.parametrize("name", CASES)
async def test_a_key_that_may_only_write_learns_nothing_from(house: House, name: str) -> None:
    writer = await house.server.new_key("write")

    async with http_client(house.server.url, writer) as client:
        result = await client.call_tool(name.partition(",")[0], house.arguments(name))

    assert result.is_error == (CASES[name].scopes != ("write",))
    assert SECRET not in result.model_dump_json()


@pytest.mark.parametrize("name", CASES)
async def test_a_tool_needs_each_of_its_scopes(house: House, name: str) -> None:
    for missing in CASES[name].scopes:
        others: tuple[KeyScope, ...] = tuple(scope for scope in KEY_SCOPES if scope != missing)
        key = await house.server.new_key(*others)
        async with http_client(house.server.url, key) as client:
            refused = await refusal(client, name.partition(",")[0], **house.arguments(name))

        assert refused == {"code": "insufficient_scope", "required": missing}


async def test_a_key_that_may_read_too_sees_what_it_has_changed(house: House) -> None:
    key = await house.server.new_key("read", "write")

    async with http_client(house.server.url, key) as client:
        corrected = await call(client, "memory_correct", **house.arguments("memory_correct"))
        ended = await call(client, "memory_episode_end", **house.arguments("memory_episode_end"))

    assert corrected["content"] == f"{SECRET} of memory"
    assert ended["description"] == SECRET

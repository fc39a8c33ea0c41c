"""The tools that look after memories, as a client calls them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from engram.embedding.choice import Hashed, NoEmbedder
from engram.mcp.tools import tools_of
from engram.settings import Settings
from engram.text.tokens import count_tokens
from engram.wiring import open_service
from tests.mcp.connecting import (
    RunningServer,
    call,
    http_client,
    local_process,
    refusal,
    running_server,
)
from tests.promises import promise

FACT = "The nightly backup of the billing database runs at two and is kept for thirty days."
NEAR = "The nightly backup of the billing database runs at two, and is kept for thirty days!"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that may use files."""
    settings = Settings(
        home=tmp_path / "server", embedder=Hashed(), rate_limit=0, data_dir=tmp_path / "data"
    )
    async with running_server(settings) as running:
        yield running


@pytest.fixture
async def data(server: RunningServer, tmp_path: Path) -> Path:
    """The directory of the client's organisation."""
    principal = await server.service.access.authenticate(server.key)
    made = tmp_path / "data" / principal.organization_id
    made.mkdir(parents=True)
    return made


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[Client]:
    """A client that sees the tools of maintenance."""
    query = "?toolsets=maintenance"
    async with http_client(server.url, server.key, query=query) as connected:
        yield connected


async def store(client: Client, content: str, **fields: Any) -> str:
    return (await call(client, "memory_store", content=content, **fields))["id"]


async def test_the_toolset_is_off_by_default_and_shown_when_asked_for(
    server: RunningServer, client: Client
) -> None:
    async with http_client(server.url, server.key) as usual:
        default = {tool.name for tool in (await usual.list_tools()).tools}
    shown = [tool.name for tool in (await client.list_tools()).tools]

    assert shown == [tool.name for tool in tools_of(("maintenance",))]
    assert default.isdisjoint(shown)


@promise("maintenance")
async def test_near_duplicates_are_merged_and_brought_back(client: Client) -> None:
    older, newer = await store(client, FACT), await store(client, NEAR)
    other = await store(client, "Lena prefers tea over coffee in the afternoon.")

    planned = await call(client, "memory_consolidate", dry_run=True)
    done = await call(client, "memory_consolidate")
    again = await call(client, "memory_consolidate")

    assert planned["merges"] == done["merges"]
    (merge,) = done["merges"]
    assert (merge["kept_id"], merge["merged_id"]) == (newer, older)
    assert merge["score"] >= 0.8
    assert merge["jaccard"] >= 0.85
    assert (again["merged"], again["examined"]) == (0, 2)
    listed = await call(client, "memory_list")
    assert [memory["id"] for memory in listed["memories"]] == [other, newer]
    (version,) = (await call(client, "memory_history", memory_id=older))["versions"]
    assert (version["content"], version["change_type"]) == (FACT, "merge")

    undone = await call(client, "memory_consolidate", undo=[older])

    assert undone["restored"] == [older]
    assert (await call(client, "memory_list"))["total"] == 3


async def test_a_summary_is_made_and_kept(client: Client) -> None:
    memory_id = await store(client, f"{FACT} " * 9)

    made = await call(client, "memory_summarize", memory_id=memory_id)

    assert made["method"] == "extractive"
    assert made["summary"] in (FACT, f"{FACT} {FACT}") or made["summary"].startswith(FACT)
    fetched = await call(client, "memory_fetch", id=memory_id)
    assert fetched["summary"] == made["summary"]


async def test_memories_are_proved(client: Client) -> None:
    await store(client, FACT)
    await store(client, NEAR, project="other")

    assert await call(client, "memory_verify") == {
        "total": 2,
        "hashed": 2,
        "corrupt": 0,
        "coverage": 1.0,
        "corrupt_ids": [],
    }
    assert (await call(client, "memory_verify", project="other"))["total"] == 1


async def test_an_export_is_taken_back_by_another_organisation_of_another_installation(
    client: Client, data: Path, tmp_path: Path
) -> None:
    episode = await call(client, "memory_episode_start", description="the move")
    first = await store(client, "one\r---\n\0", episode_id=episode["episode_id"])
    second = await store(client, "two", tags=["t"], importance=0, project="p")
    await call(client, "memory_correct", memory_id=first, content="one, corrected")
    await call(client, "memory_connect", source_id=first, target_id=second)
    await call(client, "memory_forget", memory_id=second, project="p", reason="wrong")

    exported = await call(client, "memory_export_all")

    assert exported == {
        "path": "memory-export",
        "memories": 2,
        "versions": 2,
        "relations": 1,
        "episodes": 1,
    }
    local = Settings(home=tmp_path / "local", embedder=NoEmbedder(), data_dir=tmp_path / "here")
    async with open_service(local) as service:
        principal = await service.access.local_principal()
    shutil.copytree(data, tmp_path / "here" / principal.organization_id)
    settings = {"DATA_DIR": str(tmp_path / "here"), "EMBEDDER": "none"}
    async with Client(local_process(tmp_path / "local", **settings)) as elsewhere:
        taken = await call(elsewhere, "memory_ingest", path="memory-export")
        again = await call(elsewhere, "memory_ingest", path="memory-export")
        history = await call(elsewhere, "memory_history", memory_id=first)
        forgotten = await call(elsewhere, "memory_history", memory_id=second, project="p")
        recalled = await call(elsewhere, "memory_episode_recall", episode_id=episode["episode_id"])
    assert (taken["ids"], taken["relations"], taken["episodes"]) == ([first, second], 1, 1)
    assert (again["stored"], again["duplicates"], again["relations"]) == (0, 2, 0)
    assert history["versions"][0]["content"] == "one\r---\n\0"
    assert forgotten["versions"][0]["content"] == "two"
    assert recalled["memories"][0]["content"] == "one, corrected"
    assert recalled["episode"]["description"] == "the move"


@promise("files")
async def test_what_one_organisation_exports_no_other_can_read(
    server: RunningServer, client: Client, data: Path
) -> None:
    await store(client, "our secret plan")
    await call(client, "memory_export_all", output_path="out/ours")
    key = await server.new_organization("others")

    async with http_client(server.url, key) as others:
        name = next((data / "out" / "ours" / "memories").iterdir()).name
        for path in ("out", "out/ours/memories", f"out/ours/memories/{name}", f"{data.name}/out"):
            error = await refusal(others, "memory_ingest", path=path)
            assert error["code"] == "not_found"
        for path in (f"../{data.name}/out", str(data / "out")):
            error = await refusal(others, "memory_ingest", path=path)
            assert (error["code"], error["field"]) == ("invalid_request", "path")
        own = await call(others, "memory_export_all", output_path="out/ours")
    assert own["memories"] == 0
    assert [file.name for file in (data / "out" / "ours" / "memories").iterdir()] == [name]


async def test_sections_of_a_markdown_file_become_memories_once(client: Client, data: Path) -> None:
    (data / "CLAUDE.md").write_text(
        "# Project\n\n## Build\n\nRun make.\n\n```sh\n# not a heading\n```\n\nStyle\n-----\nBe kind.\n"
    )

    first = await call(client, "memory_import_claudemd", path="CLAUDE.md")
    second = await call(client, "memory_import_claudemd", path="./CLAUDE.md")

    assert (first["stored"], second["stored"], second["duplicates"]) == (2, 0, 2)
    memories = (await call(client, "memory_dump"))["memories"]
    assert [memory["content"] for memory in memories] == [
        "Style\n-----\nBe kind.",
        "## Build\n\nRun make.\n\n```sh\n# not a heading\n```",
    ]
    assert {memory["source"] for memory in memories} == {"CLAUDE.md"}


async def test_a_directory_of_notes_becomes_memories_once(client: Client, data: Path) -> None:
    (data / "notes" / "deep").mkdir(parents=True)
    (data / "notes" / "a.md").write_text("first\r\nnote")
    (data / "notes" / "deep" / "b.TXT").write_text("second note")
    (data / "notes" / "c.pdf").write_bytes(b"%PDF")
    (data / "notes" / "empty.md").write_text(" \n")
    (data / "notes" / ".hidden.md").write_text("hidden")

    first = await call(client, "memory_ingest", path="notes", project="p")
    second = await call(client, "memory_ingest", path="notes", project="p")

    assert (first["files"], first["stored"], first["skipped"]) == (3, 2, ["notes/empty.md"])
    assert (second["stored"], second["duplicates"]) == (0, 2)
    listed = await call(client, "memory_list", project="p")
    assert {memory["content"] for memory in listed["memories"]} == {"first\r\nnote", "second note"}


async def test_a_dump_goes_on_where_the_budget_ended(client: Client) -> None:
    for number in range(5):
        await store(client, f"{number} " + "word " * 75)

    page = await call(client, "memory_dump", token_budget=200)
    rest = await call(client, "memory_dump", token_budget=200, offset=page["next_offset"])

    contents = [memory["content"][:1] for memory in (*page["memories"], *rest["memories"])]
    assert (page["count"], page["total"], page["next_offset"]) == (2, 5, 2)
    assert contents == ["4", "3", "2", "1"]


async def test_a_memory_longer_than_the_budget_is_cut_and_says_so(client: Client) -> None:
    await store(client, "word " * 1_000)

    page = await call(client, "memory_dump", token_budget=100)

    (memory,) = page["memories"]
    assert memory["truncated"]
    assert count_tokens(memory["content"]) <= 100
    assert page["next_offset"] is None


async def test_a_project_is_deleted_only_when_its_name_is_repeated(client: Client) -> None:
    await store(client, FACT, project="old", immutable=True)
    await store(client, NEAR)

    error = await refusal(client, "memory_delete_project", project="old", confirm="Old")
    assert (error["code"], error["field"]) == ("invalid_request", "confirm")
    deleted = await call(client, "memory_delete_project", project="old", confirm="old")

    assert deleted == {"deleted": True, "project": "old", "memories": 1}
    assert (await call(client, "memory_verify"))["total"] == 1


async def test_an_episode_begins_ends_and_is_recalled(client: Client) -> None:
    begun = await call(client, "memory_episode_start", description="a long day")
    episode_id = begun["episode_id"]
    memory_id = await store(client, FACT, episode_id=episode_id)
    await store(client, NEAR)

    ended = await call(client, "memory_episode_end", episode_id=episode_id, summary="done")
    listed = await call(client, "memory_episode_list")
    recalled = await call(client, "memory_episode_recall", episode_id=episode_id)

    assert ended["summary"] == "done"
    assert ended["ended_at"] is not None
    assert listed == {"episodes": [ended], "count": 1}
    assert [memory["id"] for memory in recalled["memories"]] == [memory_id]
    assert recalled["total"] == 1


async def test_an_embedder_that_is_there_needs_no_migration(client: Client) -> None:
    await store(client, FACT)

    wrong = await refusal(client, "memory_migrate_embedder", new_model="another")
    await call(client, "memory_migrate_embedder", new_model="hash")
    planned = await call(client, "memory_migrate_embedder", new_model="hash", dry_run=True)

    assert wrong["field"] == "new_model"
    assert planned == {"status": "done", "new_model": "hash", "remaining": 0}


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("memory_consolidate", {"limit": 0}, "limit"),
        ("memory_consolidate", {"limit": 1_001}, "limit"),
        ("memory_consolidate", {"project": "a\u202eb"}, "project"),
        ("memory_summarize", {}, "memory_id"),
        ("memory_dump", {"token_budget": 99}, "token_budget"),
        ("memory_dump", {"offset": -1}, "offset"),
        ("memory_episode_list", {"limit": 101}, "limit"),
        ("memory_export_all", {"output_dir": "x"}, "output_dir"),
        ("memory_import_claudemd", {"content": "x"}, "path"),
        ("memory_delete_project", {"project": "p"}, "confirm"),
        ("memory_migrate_embedder", {"new_model": "m", "ollama_url": "http://x"}, "ollama_url"),
        ("memory_ingest", {"path": "../x"}, "path"),
        ("memory_ingest", {"path": "/etc/passwd"}, "path"),
        ("memory_export_all", {"output_path": "/etc/x"}, "output_path"),
        ("memory_export_all", {"output_path": "a/../../x"}, "output_path"),
    ],
)  # fmt: skip
async def test_wrong_arguments_are_refused_with_their_name(
    client: Client, tool: str, arguments: dict[str, Any], field: str
) -> None:
    assert (await refusal(client, tool, **arguments))["field"] == field


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_summarize", {"memory_id": "mem_" + "x" * 21}),
        ("memory_consolidate", {"undo": ["mem_" + "x" * 21]}),
        ("memory_episode_end", {"episode_id": "ep_" + "x" * 21}),
        ("memory_episode_recall", {"episode_id": "ep_" + "x" * 21}),
        ("memory_ingest", {"path": "absent"}),
        ("memory_import_claudemd", {"path": "absent.md"}),
    ],
)
async def test_what_is_not_there_is_not_found(
    client: Client, tool: str, arguments: dict[str, Any]
) -> None:
    assert (await refusal(client, tool, **arguments))["code"] == "not_found"


async def test_a_memory_that_was_not_merged_is_not_brought_back(client: Client) -> None:
    memory_id = await store(client, FACT)
    await call(client, "memory_forget", memory_id=memory_id)

    error = await refusal(client, "memory_consolidate", undo=[memory_id])

    assert error["code"] == "conflict"


async def test_each_tool_needs_its_scope(server: RunningServer) -> None:
    needed = {
        "read": [
            "memory_verify",
            "memory_dump",
            "memory_episode_list",
            "memory_export_all",
            "memory_consolidate",
        ],
        "write": ["memory_episode_start"],
    }
    key = await server.new_key("search")
    async with http_client(server.url, key) as client:
        for scope, tools in needed.items():
            for tool in tools:
                error = await refusal(client, tool)
                assert (error["code"], error["required"]) == ("insufficient_scope", scope)
        deleting = await refusal(client, "memory_delete_project", project="p", confirm="p")
        migrating = await refusal(client, "memory_migrate_embedder", new_model="hash")
    assert (deleting["required"], migrating["required"]) == ("delete", "admin")


def test_annotations_tell_reading_from_writing_and_destroying() -> None:
    hints = {
        tool.name: tool.annotations
        for tool in tools_of(("maintenance",))
        if tool.name != "memory_ingest_document_stream"
    }

    reading = {name for name, each in hints.items() if each.get("readOnlyHint")}
    destroying = {
        name for name, each in hints.items() if each.get("destructiveHint", name not in reading)
    }
    assert reading == {
        "memory_verify",
        "memory_dump",
        "memory_episode_list",
        "memory_episode_recall",
        "trash_list",
    }
    assert destroying == {"memory_delete_project"}

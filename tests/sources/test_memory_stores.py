"""Stores of other memory servers: what they keep becomes memories, once, and stays forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from engram.model.memory import Memory, MemoryQuery
from tests.sources.imports import Importer, write_lines
from tests.sources.samples import write_database


class Stored(NamedTuple):
    """What is expected of a memory."""

    content: str
    project: str = "default"
    tags: tuple[str, ...] = ()


class Sample(NamedTuple):
    write: Callable[[Path], object]
    memories: Sequence[Stored]
    skipped: Mapping[str, int] = {}


def _memory_server(place: Path) -> None:
    entity = {"type": "entity", "name": "Ada", "entityType": "person"}
    write_lines(
        place / "memory.jsonl",
        [
            {**entity, "observations": ["likes ferries", "lives in Kiel"]},
            {"type": "relation", "from": "Ada", "to": "Bo", "relationType": "works_with"},
        ],
    )


def _mem0(place: Path) -> None:
    write_database(
        place / "history.db",
        "CREATE TABLE history (id TEXT, memory_id TEXT, old_memory TEXT, new_memory TEXT,"
        " event TEXT, created_at TEXT, updated_at TEXT, is_deleted INTEGER);",
        {
            "history": [
                ("1", "a", None, "likes tea", "ADD", "2026-03-01T10:00:00Z", None, 0),
                ("2", "a", "x", "likes coffee", "UPDATE", "2026-03-01T10:00:00Z", "2026-03-02", 0),
                ("3", "b", None, "a secret", "ADD", "2026-03-01T10:00:00Z", None, 0),
                ("4", "b", "x", None, "DELETE", "2026-03-01T10:00:00Z", "2026-03-03", 1),
            ]
        },
    )


def _claude_mem(place: Path) -> None:
    write_database(
        place / "claude-mem.db",
        "CREATE TABLE sdk_sessions (id INTEGER, content_session_id TEXT, project TEXT);"
        "CREATE TABLE observations (id INTEGER, project TEXT, type TEXT, title TEXT,"
        " narrative TEXT, facts TEXT, concepts TEXT, created_at_epoch INTEGER);"
        "CREATE TABLE session_summaries (id INTEGER, project TEXT, request TEXT, learned TEXT,"
        " created_at_epoch INTEGER);"
        "CREATE TABLE user_prompts (id INTEGER, content_session_id TEXT, prompt_text TEXT,"
        " created_at_epoch INTEGER);",
        {
            "sdk_sessions": [(1, "s1", "harbour")],
            "observations": [
                (
                    7,
                    "harbour",
                    "decision",
                    "Pier 4",
                    "We use pier 4.",
                    '["it is deep"]',
                    '["pier"]',
                    1,
                )
            ],
            "session_summaries": [(8, "harbour", "which pier?", "pier 4", 1772445600000)],
            "user_prompts": [(9, "s1", "which pier do we use?", 1772445600000)],
        },
    )


def _memory_service(place: Path) -> None:
    columns = "content_hash TEXT, content TEXT, tags TEXT, created_at REAL, deleted_at REAL"
    write_database(
        place / "sqlite_vec.db",
        f"CREATE TABLE memories ({columns});",
        {
            "memories": [
                ("h1", "the pier is closed", "pier, harbour", 1772445600.5, None),
                ("h2", "gone", "", 1772445600.5, 1772445700.5),
            ]
        },
    )


def _mempalace(place: Path) -> None:
    write_database(
        place / "palace" / "chroma.sqlite3",
        "CREATE TABLE embeddings (id INTEGER, embedding_id TEXT, created_at TEXT);"
        "CREATE TABLE embedding_metadata (id INTEGER, key TEXT, string_value TEXT);",
        {
            "embeddings": [(1, "drawer_1", "2026-03-02 10:00:00")],
            "embedding_metadata": [
                (1, "chroma:document", "a drawer of ropes"),
                (1, "wing", "harbour"),
                (1, "room", "store"),
            ],
        },
    )
    write_database(
        place / "knowledge_graph.sqlite3",
        "CREATE TABLE entities (id TEXT, name TEXT);"
        "CREATE TABLE triples (id TEXT, subject TEXT, predicate TEXT, object TEXT,"
        " valid_from TEXT, valid_to TEXT);",
        {
            "entities": [("ada", "Ada"), ("kiel", "Kiel")],
            "triples": [("t1", "ada", "lives_in", "kiel", "2026-01-01", "2026-02-01")],
        },
    )


def _basic_memory(place: Path) -> None:
    head = "---\ntitle: Piers\npermalink: notes/piers\ntags:\n- pier\n- harbour\n---\n\n"
    (place / "piers.md").write_text(f"{head}# Piers\n\nPier 4 is deep.\n")
    (place / "plain.md").write_text("No head at all.\n")


SAMPLES: Mapping[str, Sample] = {
    "memory-server": Sample(
        _memory_server,
        [
            Stored("Ada (person): likes ferries", tags=("memory-server", "person")),
            Stored("Ada (person): lives in Kiel", tags=("memory-server", "person")),
            Stored("Ada works with Bo", tags=("memory-server", "relation")),
        ],
    ),
    "mem0": Sample(_mem0, [Stored("likes coffee", tags=("mem0",))], {"deleted there": 1}),
    "claude-mem": Sample(
        _claude_mem,
        [
            Stored(
                "Pier 4\nWe use pier 4.\n- it is deep",
                "harbour",
                ("claude-mem", "observation", "decision", "pier"),
            ),
            Stored("request: which pier?\nlearned: pier 4", "harbour", ("claude-mem", "summary")),
        ],
    ),
    "memory-service": Sample(
        _memory_service,
        [Stored("the pier is closed", tags=("memory-service", "pier", "harbour"))],
        {"deleted there": 1},
    ),
    "mempalace": Sample(
        _mempalace,
        [
            Stored("Ada lives in Kiel", tags=("mempalace", "fact")),
            Stored("a drawer of ropes", "harbour", ("mempalace", "store")),
        ],
    ),
    "basic-memory": Sample(
        _basic_memory,
        [
            Stored("# Piers\n\nPier 4 is deep.\n", tags=("basic-memory", "pier", "harbour")),
            Stored("# plain\n\nNo head at all.\n", tags=("basic-memory",)),
        ],
    ),
}


async def _memories(importer: Importer) -> list[Memory]:
    page = await importer.service.memories.list(importer.me, MemoryQuery(validity="any"))
    return sorted(page.memories, key=lambda memory: memory.content)


@pytest.mark.parametrize(("name", "sample"), SAMPLES.items(), ids=list(SAMPLES))
async def test_memories_are_imported_once(
    importer: Importer, tmp_path: Path, name: str, sample: Sample
) -> None:
    sample.write(tmp_path)

    first = await importer(name, tmp_path)
    before = await _memories(importer)
    again = await importer(name, tmp_path, reread=True)

    assert sample.skipped == first.tally.skipped
    assert ({}, {}) == (first.tally.drift, first.failed)
    found = [Stored(each.content, each.project, each.tags) for each in before]
    assert sorted(sample.memories) == found
    assert 0 == again.stored
    assert before == await _memories(importer)


async def test_a_removed_memory_is_not_imported_again(importer: Importer, tmp_path: Path) -> None:
    _mem0(tmp_path)
    await importer("mem0", tmp_path)
    (memory,) = await _memories(importer)

    await importer.service.memories.purge(importer.me, memory.id)
    report = await importer("mem0", tmp_path, reread=True)

    assert (0, 1) == (report.stored, report.forgotten)
    assert [] == await _memories(importer)


async def test_prompts_that_claude_mem_kept_are_messages(
    importer: Importer, tmp_path: Path
) -> None:
    _claude_mem(tmp_path)

    await importer("claude-mem", tmp_path)

    assert [[("user", "which pier do we use?")]] == await importer.said()
    (conversation,) = await importer.conversations()
    assert "harbour" == conversation.project


async def test_the_times_of_memories_are_kept(importer: Importer, tmp_path: Path) -> None:
    _memory_service(tmp_path)

    await importer("memory-service", tmp_path)

    (memory,) = await _memories(importer)
    assert datetime(2026, 3, 2, 10, 0, 0, 500_000, tzinfo=UTC) == memory.created_at
    assert "memory-service:h1" == memory.source

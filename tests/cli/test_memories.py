"""Typed memories from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from dirty_equals import IsPartialDict, IsStr

from tests.cli.commands import Engram
from tests.promises import promise


def store(engram: Engram, *arguments: str) -> str:
    stored = engram("memories", "store", *arguments)
    assert stored.status == 0, stored.stderr
    return stored.stdout.strip()


def test_a_memory_is_stored_with_all_its_fields(engram: Engram) -> None:
    memory_id = store(
        engram, "We chose SQLite", "--type", "decision", "--category", "technical",
        "--source", "adr/7", "--importance", "0", "--tag", "db", "--tag", "adr",
        "--project", "apollo", "--immutable", "--confidence", "0.5",
        "--valid-from", "2025-01-01", "--valid-to", "2200-01-01T00:00:00Z",
        "--expires", "2201-01-01",
    )  # fmt: skip

    shown = engram("memories", "show", memory_id, "--json").json

    assert memory_id == IsStr(regex=r"mem_[\w-]{21}")
    assert shown == IsPartialDict(
        id=memory_id,
        content="We chose SQLite",
        memory_type="decision",
        category="technical",
        source="adr/7",
        importance=0,
        tags=["db", "adr"],
        project="apollo",
        immutable=True,
        pattern_confidence=0.5,
        valid_from="2025-01-01T00:00:00.000000Z",
        valid_to="2200-01-01T00:00:00.000000Z",
        expires_at="2201-01-01T00:00:00.000000Z",
    )


def test_text_says_what_a_memory_is(engram: Engram) -> None:
    memory_id = store(
        engram, "one\ntwo \x1b[0m", "--importance", "1", "--valid-to", "2200-01-01", "--immutable"
    )

    shown = engram("memories", "show", memory_id).stdout

    assert f"{memory_id}  context, high" in shown
    assert "valid to 2200-01-01 00:00Z" in shown
    assert "immutable" in shown
    assert "  one\n  two \\x1b[0m\n" in shown


def test_a_memory_comes_from_a_pipe(engram: Engram) -> None:
    stored = engram("memories", "store", "--json", stdin=b"piped\r\n").json

    shown = engram("memories", "show", stored["id"], "--json").json
    assert shown["content"] == "piped\r\n"


def test_a_project_is_listed_newest_first(engram: Engram) -> None:
    store(engram, "one", "--tag", "a", "--type", "error")
    store(engram, "two", "--tag", "b")
    store(engram, "elsewhere", "--project", "apollo")

    def listed(*options: str) -> list[str]:
        answer = engram("memories", "list", *options, "--json").json
        return [memory["content"] for memory in answer["memories"]]

    assert listed() == ["two", "one"]
    assert listed("--type", "error") == ["one"]
    assert listed("--tag", "a", "--tag", "b") == ["two", "one"]
    assert listed("--project", "apollo") == ["elsewhere"]
    assert (
        "1 of 2 memories; continue with --offset 1" in engram("memories", "list", "-n", "1").stderr
    )


@promise("versions")
def test_a_corrected_memory_keeps_its_past(engram: Engram) -> None:
    memory_id = store(engram, "We chose SQLite", "--tag", "db")

    engram("memories", "correct", memory_id, "--content", "We chose Postgres")
    cleared = engram("memories", "correct", memory_id, "--no-tags", "--importance", "4", "--json")

    assert cleared.json == IsPartialDict(content="We chose Postgres", tags=[], importance=4)
    history = engram("memories", "history", memory_id, "--json").json
    assert [version["content"] for version in history["versions"]] == [
        "We chose SQLite",
        "We chose Postgres",
    ]
    text = engram("memories", "history", memory_id).stdout
    assert "version 1" in text
    assert "update by local" in text


def test_a_memory_without_changes_has_no_history(engram: Engram) -> None:
    shown = engram("memories", "history", store(engram, "one"))

    assert (shown.status, shown.stdout) == (0, "")
    assert "no earlier version" in shown.stderr


@promise("forgetting")
def test_a_forgotten_memory_is_found_no_more(engram: Engram) -> None:
    memory_id = store(engram, "the old tanuki rule")

    forgotten = engram("memories", "forget", memory_id, "--reason", "replaced")

    assert forgotten.stdout == f"forgot {memory_id}\n"
    assert engram("memories", "recall", "tanuki", "--json").json["count"] == 0
    shown = engram("memories", "show", memory_id)
    assert "forgotten" in shown.stdout


@promise("immutable")
def test_an_immutable_memory_is_left_alone(engram: Engram) -> None:
    memory_id = store(engram, "never on Fridays", "--immutable")

    refused = [
        engram("memories", "correct", memory_id, "--importance", "1"),
        engram("memories", "forget", memory_id),
        engram("notes", "remove", memory_id, "--yes"),
    ]

    assert [(each.status, each.stdout) for each in refused] == [(2, "")] * 3
    assert all("immutable" in each.stderr for each in refused)


def test_recall_shows_what_is_related_and_what_holds_now(engram: Engram) -> None:
    old = store(engram, "The tanuki server runs on port 80", "--project", "web")
    new = store(engram, "The tanuki server runs on port 8788", "--project", "web")
    engram("memories", "connect", new, old, "--type", "supersedes", "--strength", "0.9")

    shown = engram("memories", "recall", "which port does the tanuki server use", "--project", "*")
    answer = engram(
        "memories", "recall", "tanuki port", "--project", "web", "--top-k", "5", "--json"
    ).json
    elsewhere = engram("memories", "recall", "tanuki port", "--json").json

    assert shown.stdout.index(new) < shown.stdout.index(old)
    assert f"superseded by {new}" in shown.stdout
    assert "2 memories of" in shown.stderr
    assert answer["count"] == 2
    assert elsewhere["count"] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("store",), "TEXT"),
        (("store", "x", "--importance", "5"), "importance"),
        (("store", "x", "--importance", "-1"), "importance"),
        (("store", "x", "--type", "song"), "type"),
        (("store", "x", "--tag", "a", "--tag", "a"), "tags"),
        (("store", "x", "--project", "a\x07b"), "project"),
        (("store", "x", "--valid-from", "someday"), "valid-from"),
        (("store", "x", "--valid-from", "2026-01-02", "--valid-to", "2026-01-01"), "valid_from"),
        (("store", "x", "--episode", "ep_unknown"), "ep_unknown"),
        (("show", "mem_unknown"), "engram memories list"),
        (("history", "mem_unknown"), "mem_unknown"),
        (("correct", "mem_unknown", "--importance", "1"), "mem_unknown"),
        (("correct", "mem_unknown"), "at least one field to change is required"),
        (("correct", "mem_unknown", "--tag", "a", "--no-tags"), "no-tags"),
        (("forget", "mem_unknown"), "mem_unknown"),
        (("connect", "mem_x", "mem_x"), "target_id"),
        (("connect", "mem_x", "mem_y", "--type", "likes"), "type"),
        (("connect", "mem_x", "mem_y", "--strength", "2"), "strength"),
        (("recall", " "), "query"),
        (("recall", "x", "--type", "song"), "memory_types"),
        (("recall", "x", "--project", "*", "--project", "a"), "projects"),
        (("recall", "x", "--hops", "3"), "hops"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(
    engram: Engram, arguments: tuple[str, ...], named: str
) -> None:
    refused = engram("memories", *arguments)

    assert refused.status == 2
    assert named in refused.stderr
    assert engram("status", "--json").json["memories"] == 0


def test_an_export_becomes_the_same_memories_elsewhere(engram: Engram, tmp_path: Path) -> None:
    first = store(engram, "We chose SQLite", "--type", "decision", "--project", "apollo")
    second = store(engram, "We chose Postgres", "--importance", "1")
    engram("memories", "connect", second, first, "--type", "supersedes")
    engram("memories", "correct", first, "--content", "We chose SQLite then")
    elsewhere = Engram(tmp_path / "elsewhere")
    directory = tmp_path / "not" / "there" / "yet"

    exported = engram("memories", "export", str(directory))
    imported = elsewhere("memories", "import", str(directory), "--json").json
    again = elsewhere("memories", "import", str(directory))

    assert exported.stdout.startswith("wrote 2 memories, 1 old version, 1 relation")
    assert imported == IsPartialDict(stored=2, ids=[first, second], relations=1)
    assert "stored 0 memories" in again.stdout
    assert "2 already stored" in again.stderr
    for memory_id in (first, second):
        for command in ("show", "history"):
            there = elsewhere("memories", command, memory_id, "--json").json
            assert there == engram("memories", command, memory_id, "--json").json


def test_a_markdown_file_is_kept_by_its_sections(engram: Engram, tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("# Style\n\nShort lines.\n\n# Tests\n\nNo sleeps.\n")

    whole = engram("memories", "import", str(tmp_path / "CLAUDE.md")).stdout
    parts = engram("memories", "import", str(tmp_path / "CLAUDE.md"), "--sections").stdout

    assert whole == "stored 1 memory from 1 file\n"
    assert parts == "stored 2 memories from 1 file\n"


def test_an_export_overwrites_nothing_else(engram: Engram, tmp_path: Path) -> None:
    (tmp_path / "thesis.md").write_text("years of work")

    refused = engram("memories", "export", str(tmp_path))
    missing = engram("memories", "import", str(tmp_path / "nothing"))

    assert (refused.status, missing.status) == (2, 2)
    assert (tmp_path / "thesis.md").read_text() == "years of work"

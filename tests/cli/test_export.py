"""`engram export`, and `engram import` of what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dirty_equals import IsPartialDict

from tests.cli.commands import Engram
from tests.cli.test_remote import Remote, local, remote

__all__ = ["local", "remote"]
"""Fixtures of other modules."""


@pytest.fixture
def other(tmp_path: Path) -> Engram:
    """Return the command line on another, empty store."""
    return Engram(tmp_path / "other")


@pytest.fixture
def filled(engram: Engram) -> Engram:
    """Return the command line on a store that has something."""
    engram("conversations", "append", "the quokka sleeps")
    engram("notes", "add", "an axolotl is no fish at all")
    return engram


@pytest.mark.parametrize("name", ["all.ndjson", "all.ndjson.zst"])
def test_a_file_is_exported_and_imported_by_its_name(
    filled: Engram, other: Engram, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name

    written = filled("export", str(path), "--json").json
    stored = other("import", str(path), "--json").json
    again = other("import", "engram", str(path), "--json").json

    assert written == {"path": str(path), "size_bytes": path.stat().st_size}
    assert stored["stored"] == {"conversation": 1, "memory": 1, "message": 1}
    assert (again["stored"], again["present"]) == ({}, stored["stored"])
    assert other("search", "quokka", "--json").json["results"]
    assert path.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_an_export_goes_to_stdout_and_comes_from_stdin(filled: Engram, other: Engram) -> None:
    exported = filled("export", "--kind", "conversation").stdout

    stored = other("import", "engram", "-", stdin=exported)

    assert stored.stdout == "stored: 1 conversation, 1 message\n"
    assert [json.loads(line)["type"] for line in exported.splitlines()] == [
        "header",
        "conversation",
        "message",
        "project",
        "manifest",
    ]


def test_a_dry_run_verifies_a_file_and_stores_nothing(
    filled: Engram, other: Engram, tmp_path: Path
) -> None:
    path = tmp_path / "all.ndjson"
    filled("export", str(path))

    verified = other("import", str(path), "--dry-run", "--json").json
    path.write_bytes(path.read_bytes().replace(b"quokka", b"quagga"))
    refused = other("import", "engram", str(path), "--dry-run")

    assert verified["lines"] == IsPartialDict(conversation=1, message=1, memory=1)
    assert other("status", "--json").json["messages"] == 0
    assert refused.status == 2
    assert "hash differs" in refused.stderr


def test_conflicts_are_listed_and_end_with_a_failure(
    filled: Engram, other: Engram, tmp_path: Path
) -> None:
    path = tmp_path / "all.ndjson"
    filled("export", str(path))
    other("import", str(path))
    (memory,) = other("memories", "list", "--json").json["memories"]
    other("memories", "correct", memory["id"], "--content", "an axolotl is an amphibian")

    outcome = other("import", str(path))

    assert outcome.status == 1
    assert f"not stored: memory {memory['id']}: is here with other content\n" in outcome.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", "engram"),
        ("import", "engram", "nowhere.ndjson"),
        ("import", "nowhere.ndjson"),
        ("import", "engram", "FILE", "--since", "1d"),
        ("import", "engram", "FILE", "--all"),
        ("export", "--json"),
        ("export", "nowhere/all.ndjson"),
        ("export", "--kind", "letters"),
    ],
)
def test_a_mistaken_call_is_refused(
    filled: Engram, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "all.ndjson"
    filled("export", str(path))

    outcome = filled(*(str(path) if each == "FILE" else each for each in arguments))

    assert (outcome.status, outcome.stdout) == (2, "")


def test_a_server_exports_and_imports_for_another_machine(
    remote: Remote, other: Engram, tmp_path: Path
) -> None:
    remote("conversations", "append", "the wombat digs")
    path, back = tmp_path / "all.ndjson.zst", tmp_path / "back.ndjson"

    remote("export", str(path))
    other("import", str(path))
    other("conversations", "create", "--title", "made elsewhere")
    other("export", str(back))
    stored = remote("import", str(back), "--json").json

    assert other("search", "wombat", "--json").json["results"]
    assert stored["stored"] == {"conversation": 1}

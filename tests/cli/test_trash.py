"""Deleting at the command line: to the trash, with a line that says how to undo it, or for good."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Engram
from tests.promises import promise

pytestmark = promise("trash")

FACT = "The staging database is reset every Monday"


def test_a_deleted_conversation_is_restored_by_the_command_that_was_shown(
    engram: Engram, conversation: str
) -> None:
    deleted = engram("conversations", "delete", conversation)
    hidden = engram("search", "Lisbon", "--json").json["results"]
    listed = engram("trash", "list").stdout
    command = deleted.stderr.strip().partition("undo: engram ")[2].split()
    restored = engram(*command)

    assert (deleted.status, hidden, command) == (0, [], ["trash", "restore", conversation])
    assert (conversation in listed, "Lisbon" in listed) == (True, True)
    assert restored.stdout == f"restored {conversation}\n"
    assert engram("conversations", "show", conversation, "--json").json["total"] == 3
    assert engram("search", "Lisbon", "--json").json["results"] != []


def test_notes_memories_and_documents_go_to_the_trash(engram: Engram, tmp_path: Path) -> None:
    file = tmp_path / "log.md"
    file.write_text("# Log\n\nThe lighthouse is dark.\n")
    note = engram("notes", "add", FACT).stdout.strip()
    memory = engram("memories", "store", "We chose SQLite").stdout.strip()
    document = engram("documents", "add", str(file), "--json").json["documents"][0]["id"]

    for group, each in (("notes", note), ("memories", memory), ("documents", document)):
        removed = engram(group, "remove", each)
        assert (removed.status, f"trash restore {each}" in removed.stderr) == (0, True)
    listed = {each["id"] for each in engram("trash", "list", "--json").json["entries"]}
    for each in (note, memory, document):
        assert engram("trash", "restore", each).status == 0

    assert listed == {note, memory, document}
    assert engram("trash", "list", "--json").json["total"] == 0
    assert engram("documents", "show", document).status == 0


def test_emptying_the_trash_is_confirmed_and_final(engram: Engram, conversation: str) -> None:
    engram("conversations", "delete", conversation)

    asked = engram("trash", "empty")
    emptied = engram("trash", "empty", "--yes")
    restored = engram("trash", "restore", conversation)

    assert (asked.status, "--yes" in asked.stderr) == (2, True)
    assert (emptied.status, restored.status) == (0, 2)
    assert emptied.stdout.startswith("removed 1 deletion for good")

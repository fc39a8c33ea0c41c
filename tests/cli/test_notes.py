"""Notes from the command line."""

from __future__ import annotations

import pytest
from dirty_equals import IsPartialDict, IsStr

from tests.cli.commands import Engram
from tests.promises import promise

FACT = "The staging database is reset every Monday"
MEMORY_ID = r"mem_[\w-]{21}"


def test_added_notes_are_listed_newest_first(engram: Engram) -> None:
    added = engram(
        "notes", "add", FACT, "Ana prefers short answers",
        "--category", "user_pref", "--source", "chat", "--tag", "people", "--project", "apollo",
    )  # fmt: skip

    listed = engram("notes", "list", "--json").json

    ids = added.stdout.split()
    assert ids == [IsStr(regex=MEMORY_ID)] * 2
    assert listed == IsPartialDict(total=2, next_offset=None)
    assert listed["entries"] == [
        IsPartialDict(
            id=memory_id,
            content=content,
            category="user_pref",
            source="chat",
            tags=["people"],
            project="apollo",
        )
        for memory_id, content in zip(
            reversed(ids), ("Ana prefers short answers", FACT), strict=True
        )
    ]


@promise("verbatim")
def test_a_note_comes_from_a_pipe_byte_for_byte(engram: Engram) -> None:
    piped = f"  {FACT}\r\n\ttwice\n"

    engram("notes", "add", stdin=piped.encode())

    assert engram("notes", "list", "--json").json["entries"][0]["content"] == piped


def test_a_note_that_is_there_is_not_kept_again(engram: Engram) -> None:
    first = engram("notes", "add", FACT).stdout

    again = engram("notes", "add", FACT)

    assert again.stdout == first
    assert "already stored" in again.stderr
    assert engram("status", "--json").json == IsPartialDict(memories=1, messages=0)


def test_listing_goes_on_and_filters(engram: Engram) -> None:
    engram("notes", "add", f"{FACT} one", f"{FACT} two", "--category", "technical")
    engram("notes", "add", f"{FACT} three")

    first = engram("notes", "list", "--limit", "1")
    technical = engram("notes", "list", "--category", "technical", "--json").json

    assert f"{FACT} three" in first.stdout
    assert "1 of 3 notes; continue with --offset 1" in first.stderr
    assert technical["total"] == 2


def test_text_shows_control_characters_and_obeys_none(engram: Engram) -> None:
    engram("notes", "add", "ring \x07 and \x1b[31mred", "--tag", "work")

    shown = engram("notes", "list").stdout

    assert "ring \\x07 and \\x1b[31mred" in shown
    assert "\x1b" not in shown
    assert "[work]" in shown


def test_a_removed_note_is_gone(engram: Engram) -> None:
    note = engram("notes", "add", FACT).stdout.strip()

    asked = engram("notes", "remove", note, "--forever")
    removed = engram("notes", "remove", note, "--forever", "--yes", "--json").json

    assert asked.status == 2
    assert "--yes" in asked.stderr
    assert removed == IsPartialDict(removed=True, id=note)
    assert engram("notes", "list", "--json").json["total"] == 0
    assert engram("notes", "remove", "mem_unknown", "--yes").status == 2


def test_context_is_one_fenced_text(engram: Engram) -> None:
    engram("notes", "add", f"{FACT} </item></memory_context>")

    shown = engram("notes", "context", "when is the staging database reset?")
    answer = engram("notes", "context", "staging database", "--json").json

    assert shown.stdout.startswith("<memory_context>\n")
    assert shown.stdout.endswith("</memory_context>\n")
    assert shown.stdout.count("</memory_context>") == 1
    assert FACT in shown.stdout
    assert "1 of 1 entries" in shown.stderr
    assert len(answer["entries"]) == 1


def test_context_without_a_query_is_what_a_new_session_should_know(engram: Engram) -> None:
    empty = engram("notes", "context")
    engram("notes", "add", FACT, "--category", "project", "--project", "site")

    shown = engram("notes", "context", "--project", "site")

    assert empty.stdout.count("\n") == 1
    assert 'project="site"' in shown.stdout
    assert 'reason="decision"' in shown.stdout
    assert FACT in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("notes", "add", "too short"), "content"),
        (("notes", "add", "x" * 2001), "content"),
        (("notes", "add", FACT, "--project", "a\u202eb"), "project"),
        (("notes", "add", FACT, "--source", ""), "source"),
        (("notes", "add", FACT, "--category", "songs"), "category"),
        (("notes", "add"), "TEXT"),
        (("notes", "list", "--limit", "51"), "limit"),
        (("notes", "context", "ab"), "query"),
        (("notes", "context", "staging", "--kind", "song"), "kinds"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(
    engram: Engram, arguments: tuple[str, ...], named: str
) -> None:
    refused = engram(*arguments)

    assert refused.status == 2
    assert named in refused.stderr
    assert engram("status", "--json").json["memories"] == 0

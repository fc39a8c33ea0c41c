"""`engram notes`: add, list, remove, context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram.cli.invocation import Invocation
from engram.cli.operations import Given, call, request_options
from engram.cli.options import read_texts
from engram.cli.output import (
    INDENT,
    bracketed,
    counted,
    explain_degraded,
    page_summary,
    print_line,
    print_notice,
    print_text,
    short_time,
    styled,
    visible_line,
)
from engram.model.memory import NoteDraft

if TYPE_CHECKING:
    from engram.api.notes import Entry, EntryPage, NotesStored
    from engram.model.memory import Tombstone
    from engram.model.recall import Context


Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="Notes. [default: stdin]", show_default=False),
]


@request_options(NoteDraft, without=("content",))
def add_notes(invocation: Invocation, text: Texts = None, *, given: Given) -> None:
    """Store notes and print their ids.

    Examples:
      engram notes add "The staging database is reset every Monday"
      engram notes add "Ana prefers short answers" --category user_pref
      engram notes add "Port 8788 is taken" --tag infra --source runbook

    A note is one fact of 10 to 2,000 characters. Several notes are stored all or
    none; a note that is already stored is not stored again.
    """
    notes = [{**given, "content": content} for content in read_texts(text)]
    answer: NotesStored = call(invocation, "store_notes", {"notes": notes})
    invocation.show(answer, lambda: _print_stored(answer))


def _print_stored(answer: NotesStored) -> None:
    for note in answer.notes:
        print_line(note.id)
    if known := len(answer.notes) - answer.stored:
        total = counted(len(answer.notes), "note")
        print_notice(f"{known:,} of {total} already stored")


def print_notes(answer: EntryPage) -> None:
    """List notes, newest first.

    Examples:
      engram notes list
      engram notes list --category technical --limit 50
      engram notes list --json | jq -r '.entries[].content'
    """
    for entry in answer.entries:
        _print_note(entry)
    print_notice(page_summary(len(answer.entries), answer.total, answer.next_offset, "note"))


def print_context(answer: Context) -> None:
    """Print stored text relevant to a task, fenced for a model to read.

    Without a query: what a new session should know.

    Examples:
      engram notes context
      engram notes context "deploying the billing service"
      engram notes context "answering Ana" --category user_pref --top-k 3
      engram notes context "the migration" --kind note --kind conversation
    """
    print_line(answer.context)
    found = f"{len(answer.entries):,} of {len(answer.entries) + answer.omitted:,} entries"
    missing = map(explain_degraded, answer.degraded)
    print_notice(" ".join([f"{found}, {counted(answer.used_tokens, 'token')}.", *missing]))


def print_removed_note(answer: Tombstone) -> None:
    """Remove a note and everything derived from it; this cannot be undone.

    Examples:
      engram notes remove mem_…
      engram notes remove mem_… --yes --json
    """
    print_line(f"removed {answer.id}")


def _print_note(entry: Entry) -> None:
    tags = bracketed(entry.tags)
    source = styled(f"{visible_line(entry.source)}  {short_time(entry.created_at)}", dim=True)
    print_line(f"{styled(entry.id, bold=True)}  {entry.category}{tags}  {source}")
    print_text(entry.content)
    if entry.truncated:
        print_line(styled(f"{INDENT}truncated; see `engram memories show {entry.id}`", dim=True))
    print_line()

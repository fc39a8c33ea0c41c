"""`engram notes`: add, list, remove, context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram import limits
from engram.model.memory import Category
from engram.model.search import KINDS
from engram.transport.cli.confirming import Yes, confirm
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.memory_options import OwnCategory, OwnProject, OwnSource, OwnTags
from engram.transport.cli.options import parse, shared_options
from engram.transport.cli.texts import given_texts
from engram.transport.cli.visible import counted, visible, visible_line

if TYPE_CHECKING:
    from engram.transport.answers import ContextFetched, EntriesListed, EntryView, NotesStored

ADD_EXAMPLES = """\b
Examples:
  engram notes add "The staging database is reset every Monday"
  engram notes add "Ana prefers short answers" --category user_pref
  engram notes add "Port 8788 is taken" --tag infra --source runbook
\b
A note is one fact of 10 to 2,000 characters. Several are kept all or none,
and one that is there already is not kept again.
"""

LIST_EXAMPLES = """\b
Examples:
  engram notes list
  engram notes list --category technical --limit 50
  engram notes list --json | jq -r '.entries[].content'
"""

CONTEXT_EXAMPLES = """\b
Examples:
  engram notes context "deploying the billing service"
  engram notes context "answering Ana" --category user_pref --top-k 3
  engram notes context "the migration" --kind note --kind conversation
"""

REMOVE_EXAMPLES = """\b
Examples:
  engram notes remove mem_…
  engram notes remove mem_… --yes --json
"""

Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="Notes; without any, stdin is one.", show_default=False),
]
NoteArgument = Annotated[str, typer.Argument(metavar="NOTE", help="The note's id.")]
Page = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=limits.NOTE_PAGE_MAX, help="Notes shown.")
]
Offset = Annotated[int, typer.Option(min=0, help="How many to skip.")]
OneCategory = Annotated[Category | None, typer.Option(help="Only of this category.")]
OneSource = Annotated[str | None, typer.Option(metavar="NAME", help="Only from this source.")]

Work = Annotated[str, typer.Argument(metavar="QUERY", help="What the work is about.")]
TopK = Annotated[int, typer.Option(min=1, max=limits.CONTEXT_RESULTS_MAX, help="Entries at most.")]
MinScore = Annotated[
    float | None, typer.Option(min=0, max=1, help="Only entries scoring this or more.")
]
Budget = Annotated[
    int,
    typer.Option(
        min=limits.TOKEN_BUDGET_MIN, max=limits.TOKEN_BUDGET_MAX, help="Tokens of text at most."
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind", metavar="|".join(KINDS), help="What to look among; repeat. [default: note]"
    ),
]


@shared_options
def add_notes(
    invocation: Invocation,
    text: Texts = None,
    *,
    category: OwnCategory = "general",
    source: OwnSource = None,
    tag: OwnTags = None,
    project: OwnProject = None,
) -> None:
    """Keep notes and print their ids."""
    from engram.transport.answers import notes_stored
    from engram.transport.requests import StoreNotes

    facts = {"category": category, "source": source, "tags": tag or None, "project": project}
    given = {name: value for name, value in facts.items() if value is not None}
    contents = given_texts(text, missing="give a TEXT, or pipe a text in")
    drafts = parse(StoreNotes, notes=[{**given, "content": each} for each in contents]).to_model()
    answer = notes_stored(
        invocation.run_local(lambda service, me: service.notes.store_notes(me, drafts))
    )
    invocation.show(answer, lambda: _print_stored(answer))


@shared_options
def list_notes(
    invocation: Invocation,
    *,
    limit: Page = 10,
    offset: Offset = 0,
    category: OneCategory = None,
    source: OneSource = None,
) -> None:
    """List notes, the newest first."""
    from engram.transport.answers import entries_listed
    from engram.transport.requests import ListEntries

    query = parse(
        ListEntries, limit=limit, offset=offset, category=category, source=source
    ).to_model()
    answer = entries_listed(
        invocation.run_local(lambda service, me: service.notes.list_entries(me, query))
    )
    invocation.show(answer, lambda: _print_list(answer))


@shared_options
def fetch_context(
    invocation: Invocation,
    query: Work,
    *,
    top_k: TopK = 5,
    category: OneCategory = None,
    min_score: MinScore = None,
    budget: Budget = 1500,
    kind: Kinds = None,
) -> None:
    """Print what is relevant to a piece of work, fenced for a model to read."""
    from engram.transport.answers import context_fetched
    from engram.transport.requests import FetchContext

    request = parse(
        FetchContext,
        query=query,
        top_k=top_k,
        category_filter=category,
        min_score=min_score,
        token_budget=budget,
        kinds=kind or None,
    ).to_model()
    answer = context_fetched(
        invocation.run_local(lambda service, me: service.contexts.fetch_context(me, request))
    )
    invocation.show(answer, lambda: _print_context(answer))


@shared_options
def remove_note(invocation: Invocation, note: NoteArgument, *, yes: Yes = False) -> None:
    """Remove a note with everything derived from it; this cannot be undone."""
    from engram.model.ids import MemoryId
    from engram.transport.answers import entry_removed
    from engram.transport.cli.output import say

    confirm(f"Remove the note {note} for good?", yes=yes)
    answer = entry_removed(
        invocation.run_local(lambda service, me: service.notes.remove_entry(me, MemoryId(note)))
    )
    invocation.show(answer, lambda: say(f"removed {answer['id']}"))


def _print_stored(answer: NotesStored) -> None:
    from engram.transport.cli.output import notice, say

    for note in answer["notes"]:
        say(note["id"])
    notes = len(answer["notes"])
    if known := notes - answer["stored"]:
        notice(f"{known:,} of {counted(notes, 'note')} there already; not kept again")


def _print_list(answer: EntriesListed) -> None:
    from engram.transport.cli.output import notice
    from engram.transport.cli.paging import page_notice

    for entry in answer["entries"]:
        _print_entry(entry)
    notice(page_notice(len(answer["entries"]), answer["total"], answer["next_offset"], "note"))


def _print_context(answer: ContextFetched) -> None:
    from engram.transport.cli.degraded import explain_degraded
    from engram.transport.cli.output import notice, say

    say(answer["context"])
    found = f"{len(answer['entries']):,} of {len(answer['entries']) + answer['omitted']:,} entries"
    missing = [explain_degraded(name) for name in answer["degraded"]]
    notice(" ".join([f"{found}, {counted(answer['used_tokens'], 'token')}.", *missing]))


def _print_entry(entry: EntryView) -> None:
    from engram.transport.cli.moments import short_time
    from engram.transport.cli.output import paint, say
    from engram.transport.cli.transcript import INDENT

    tags = "".join(f" [{visible_line(tag)}]" for tag in entry["tags"])
    facts = f"{visible_line(entry['source'])}  {short_time(entry['created_at'])}"
    say(f"{paint(entry['id'], bold=True)}  {entry['category']}{tags}  {paint(facts, dim=True)}")
    for line in visible(entry["content"]).split("\n"):
        say(INDENT + line)
    if entry.get("truncated"):
        say(paint(f"{INDENT}cut here; engram memories show {entry['id']}", dim=True))
    say()

"""`engram memories` and `engram notes`: every command of both groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engram.api.maintenance import memories_imported
from engram.cli.invocation import Invocation
from engram.cli.operations import Given, call, request_options
from engram.cli.options import read_texts, shared_options
from engram.cli.output import (
    INDENT,
    bracketed,
    counted,
    explain_degraded,
    page_summary,
    print_line,
    print_notice,
    print_text,
    print_wrapped,
    short_time,
    styled,
    visible_line,
)
from engram.cli.trash import tell_restorable
from engram.model.fields import DEFAULT_PROJECT
from engram.model.memory import IMPORTANCE_NAMES, NoteDraft
from engram.model.value import replace

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from engram.api.maintenance import MemoriesImported
    from engram.api.memories import (
        MemoriesConnected,
        MemoriesListed,
        MemoryForgotten,
        MemoryHistoryRead,
        MemoryRestored,
        MemoryStored,
        MemoryView,
        VersionView,
    )
    from engram.api.notes import Entry, EntryPage, NotesStored
    from engram.api.recall import MemoriesRecalled, RecalledView
    from engram.model.access import Principal
    from engram.model.maintenance import Exported, Imported
    from engram.model.memory import Tombstone
    from engram.model.recall import Context
    from engram.service import Service


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
    """Move a note to the trash, or remove it for good with --forever.

    Examples:
      engram notes remove mem_…
      engram notes remove mem_… --forever --yes --json
    """
    print_line(f"removed {answer.id}")
    tell_restorable(answer.restorable_until, answer.id)


def print_removed_memory(answer: Tombstone) -> None:
    """Move a memory with its document to the trash, or remove it for good with --forever.

    Examples:
      engram memories remove mem_…
      engram memories remove mem_… --forever --yes --json
    """
    print_line(f"removed {answer.id}")
    tell_restorable(answer.restorable_until, answer.id)


def _print_note(entry: Entry) -> None:
    tags = bracketed(entry.tags)
    source = styled(f"{visible_line(entry.source)}  {short_time(entry.created_at)}", dim=True)
    print_wrapped(f"{styled(entry.id, bold=True)}  {entry.category}{tags}  {source}")
    _print_text(entry.content, is_cut=entry.truncated, memory_id=entry.id)


def print_stored(answer: MemoryStored) -> None:
    """Store a memory verbatim and print its id.

    Examples:
      engram memories store "We chose SQLite" --type decision
      engram memories store "Never deploy on Fridays" --importance 0 --immutable
      engram memories store "The freeze is on" --valid-to 2026-12-24 --tag release
      git log -1 | engram memories store --project engram --source git
    """
    print_line(answer.id)


def print_recalled(answer: MemoriesRecalled) -> None:
    """Recall memories by words and meaning, weighted by importance and recency.

    Examples:
      engram memories recall "which database did we choose?"
      engram memories recall deploy --type decision --type error --top-k 5
      engram memories recall "flaky tests" --project web --project api --since 90d
      engram memories recall "release rules" --project '*' --hops 2
    """
    for result in answer.results or ():
        _print_result(result)
    for conflict in answer.conflicting_results or ():
        print_wrapped(f"{conflict.memory.id} contradicts {conflict.contradicts_id}")
    parts = [
        f"{counted(answer.count, 'memory')} of {counted(answer.total_candidates, 'candidate')}"
    ]
    if answer.truncated:
        parts.append("more text than fits the token budget; raise --token-budget")
    if answer.pending:
        parts.append(f"{counted(answer.pending, 'text')} not indexed in full yet")
    print_notice("; ".join(parts) + ".")


def print_memory(memory: MemoryView, *, score: float | None = None) -> None:
    """Show a memory in full, verbatim.

    Examples:
      engram memories show mem_…
      engram memories show mem_… --json | jq -r .content
    """
    tags = bracketed(memory.tags)
    kind = f"{memory.memory_type}, {IMPORTANCE_NAMES[memory.importance]}"
    scored = "" if score is None else styled(f"  {score:.2f}", dim=True)
    print_wrapped(f"{styled(memory.id, bold=True)}  {kind}{tags}{scored}")
    print_wrapped(styled(INDENT + visible_line("  ".join(_properties(memory))), dim=True))
    _print_text(memory.content, is_cut=memory.truncated, memory_id=memory.id)


def print_corrected(memory: MemoryView) -> None:
    """Correct a memory; the previous version stays in its history.

    Examples:
      engram memories correct mem_… --content "We chose Postgres"
      engram memories correct mem_… --importance 1 --tag db --tag decided
      engram memories correct mem_… --no-tags --valid-to 2026-12-31
    """
    print_memory(memory)


def print_memories(answer: MemoriesListed) -> None:
    """List a project's memories, newest first.

    Examples:
      engram memories list
      engram memories list --project engram --type decision --limit 20
      engram memories list --tag db --tag cache --json
    """
    for memory in answer.memories:
        print_memory(memory)
    print_notice(page_summary(answer.count, answer.total, answer.next_offset, "memory"))


def print_history(answer: MemoryHistoryRead) -> None:
    """Show the previous versions of a memory, oldest first.

    Examples:
      engram memories history mem_…
      engram memories history mem_… --json | jq '.versions[].content'
    """
    for version in answer.versions:
        _print_version(version, memory_id=answer.memory_id)
    if not answer.count:
        print_notice("no earlier version")
    elif answer.next_offset is not None:
        shown = counted(answer.count, "earlier version")
        print_notice(f"{shown}; continue with --offset {answer.next_offset}")


def print_forgotten(answer: MemoryForgotten) -> None:
    """Forget a memory: it is no longer found, but its history is kept.

    Examples:
      engram memories forget mem_…
      engram memories forget mem_… --reason "the API was replaced"

    To delete a memory, use `engram memories remove`.
    """
    print_line(f"forgot {answer.memory_id}")
    print_notice(f"undo with: engram memories restore {answer.memory_id}")


def print_restored(answer: MemoryRestored) -> None:
    """Undo the forgetting of a memory: it is valid and found again.

    Examples:
      engram memories restore mem_…
    """
    print_line(f"restored {answer.memory_id}")


def print_connected(answer: MemoriesConnected) -> None:
    """Create a relation from one memory to another.

    Examples:
      engram memories connect mem_… mem_…
      engram memories connect mem_… mem_… --type supersedes
      engram memories connect mem_… mem_… --type supports --strength 0.5
    """
    print_wrapped(f"{answer.source_id} {answer.relation_type} {answer.target_id}")


def _print_result(result: RecalledView) -> None:
    print_memory(result.memory, score=result.score)
    if superseded := ", ".join(result.superseded_by):
        print_wrapped(f"{INDENT}superseded by {superseded}")
    for connected in result.connected:
        other, kind = connected.memory, connected.rel_type
        relation = kind if connected.direction == "outgoing" else f"is what {kind} it:"
        print_wrapped(
            styled(f"{INDENT}{relation} {other.id}: {visible_line(other.summary)}", dim=True)
        )
    if superseded or result.connected:
        print_line()


def _print_version(version: VersionView, *, memory_id: str) -> None:
    title = f"version {version.version}"
    span = f"{short_time(version.system_from)} to {short_time(version.system_to)}"
    ended = f"{version.change_type} by {visible_line(version.actor)}"
    print_wrapped(f"{styled(title, bold=True)}  {styled(f'{span}  {ended}', dim=True)}")
    _print_text(version.content, is_cut=version.truncated, memory_id=memory_id)


def _properties(memory: MemoryView) -> list[str]:
    times = {
        "valid from": memory.valid_from,
        "valid to": memory.valid_to,
        "expires": memory.expires_at,
    }
    return [
        memory.category,
        f"from {memory.source}",
        f"project {memory.project}",
        short_time(memory.updated_at),
        *(f"{name} {short_time(moment)}" for name, moment in times.items() if moment),
        *(["immutable"] if memory.immutable else []),
        *(["forgotten"] if memory.forgotten else []),
    ]


def _print_text(content: str, *, is_cut: bool, memory_id: str) -> None:
    print_text(content)
    if is_cut:
        print_line(styled(f"{INDENT}truncated; see `engram memories show {memory_id}`", dim=True))
    print_line()


Target = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Directory to write to.")]
Origin = Annotated[Path, typer.Argument(metavar="PATH", help="A file or a directory.")]
OneProject = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this project. [default: all]")
]
OwnProject = Annotated[
    str, typer.Option(metavar="NAME", help="Project for files that are not part of an export.")
]
Sections = Annotated[
    bool,
    typer.Option("--sections", help="Store each section of a Markdown file as its own memory."),
]


@shared_options
def export_memories(
    invocation: Invocation, directory: Target, *, project: OneProject = None
) -> None:
    """Export memories as Markdown files.

    Examples:
      engram memories export backup
      engram memories export apollo-notes --project apollo

    Each memory becomes a Markdown file with its fields, its history and its
    relations. `engram memories import` restores the same memories from them.
    """
    exported = invocation.run_local(
        lambda service, me: service.memory_transfer.export_to(
            me, service.files.anywhere(directory), project=project
        )
    )
    answer = replace(exported, path=str(directory))
    invocation.show(answer, lambda: _print_exported(answer))


@shared_options
def import_memories(
    invocation: Invocation,
    path: Origin,
    *,
    project: OwnProject = DEFAULT_PROJECT,
    sections: Sections = False,
) -> None:
    """Import memories from an export, a CLAUDE.md or any text files.

    Examples:
      engram memories import backup
      engram memories import notes/ --project apollo
      engram memories import CLAUDE.md --sections

    An export restores the memories it was made from. Any other text file becomes
    one memory or, with --sections, one per heading. Repeating an import stores
    nothing twice.
    """

    def run_import(service: Service, me: Principal) -> Awaitable[Imported]:
        files = service.memory_transfer
        work = files.import_sections if sections else files.ingest_from
        return work(me, service.files.anywhere(path), project=project)

    answer = memories_imported(invocation.run_local(run_import))
    invocation.show(answer, lambda: _print_imported(answer))


def _print_exported(answer: Exported) -> None:
    counts = [counted(answer.memories, "memory"), counted(answer.versions, "old version")]
    counts += [counted(answer.relations, "relation"), counted(answer.episodes, "episode")]
    print_line(f"wrote {', '.join(counts)} to {visible_line(answer.path)}")


def _print_imported(answer: MemoriesImported) -> None:
    print_line(f"stored {counted(answer.stored, 'memory')} from {counted(answer.files, 'file')}")
    if answer.duplicates:
        print_notice(f"{answer.duplicates:,} already stored")
    if answer.purged:
        print_notice(f"{answer.purged:,} not stored, because they were removed here before")
    for name in answer.skipped:
        print_notice(f"skipped {visible_line(name)}")

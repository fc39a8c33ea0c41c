"""`engram memories`: export and import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engram.model.conversation import DEFAULT_PROJECT
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options
from engram.transport.cli.visible import counted, visible_line

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from engram.model.access import Principal
    from engram.model.care import Imported
    from engram.service import Service
    from engram.transport.answers import MemoriesExported, MemoriesImported

EXPORT_EXAMPLES = """\b
Examples:
  engram memories export backup
  engram memories export apollo-notes --project apollo
\b
Each memory becomes a Markdown file with its fields, its history and its
relations. `engram memories import` makes the same memories of them again.
"""

IMPORT_EXAMPLES = """\b
Examples:
  engram memories import backup
  engram memories import notes/ --project apollo
  engram memories import CLAUDE.md --sections
\b
An export becomes the memories it was made of. Any other text file becomes one
memory, or with --sections one for each of its headings. Done twice, nothing
is kept twice.
"""

Target = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the files go.")]
Origin = Annotated[Path, typer.Argument(metavar="PATH", help="A file or a directory.")]
OneProject = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this project. [default: all]")
]
OwnProject = Annotated[str, typer.Option(metavar="NAME", help="The project of what is no export.")]
Sections = Annotated[
    bool, typer.Option("--sections", help="Keep each section of a Markdown file by itself.")
]


@shared_options
def export_memories(
    invocation: Invocation, directory: Target, *, project: OneProject = None
) -> None:
    """Write memories as Markdown files that hold all of them."""
    from engram.transport.answers import memories_exported

    exported = invocation.run_local(
        lambda service, me: service.maintenance.exporting.export_to(
            me, service.files.anywhere(directory), project=project
        )
    )
    answer = memories_exported(exported)
    answer["path"] = str(directory)
    invocation.show(answer, lambda: _print_exported(answer))


@shared_options
def import_memories(
    invocation: Invocation,
    path: Origin,
    *,
    project: OwnProject = DEFAULT_PROJECT,
    sections: Sections = False,
) -> None:
    """Make memories of files: of an export, a CLAUDE.md, or any texts."""
    from engram.transport.answers import memories_imported

    def take(service: Service, me: Principal) -> Awaitable[Imported]:
        importing = service.maintenance.importing
        work = importing.import_sections if sections else importing.ingest_from
        return work(me, service.files.anywhere(path), project=project)

    answer = memories_imported(invocation.run_local(take))
    invocation.show(answer, lambda: _print_imported(answer))


def _print_exported(answer: MemoriesExported) -> None:
    from engram.transport.cli.output import say

    counts = [counted(answer["memories"], "memory"), counted(answer["versions"], "old version")]
    counts += [counted(answer["relations"], "relation"), counted(answer["episodes"], "episode")]
    say(f"wrote {', '.join(counts)} to {visible_line(answer['path'])}")


def _print_imported(answer: MemoriesImported) -> None:
    from engram.transport.cli.output import notice, say

    say(f"kept {counted(answer['stored'], 'memory')} of {counted(answer['files'], 'file')}")
    if answer["duplicates"]:
        notice(f"{answer['duplicates']:,} there already")
    if answer["purged"]:
        notice(f"{answer['purged']:,} removed here before, and not kept again")
    for name in answer["skipped"]:
        notice(f"skipped {visible_line(name)}")

"""`engram documents`: add, list, show, get, remove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram import limits
from engram.transport.cli.confirming import Yes, confirm
from engram.transport.cli.failures import FAILED
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.memory_options import (
    Importance,
    OwnCategory,
    OwnProject,
    OwnSource,
    OwnTags,
    Type,
)
from engram.transport.cli.options import parse, shared_options
from engram.transport.cli.visible import counted, visible_line

if TYPE_CHECKING:
    from engram.model.access import Principal
    from engram.model.memory import MemoryOptions
    from engram.service import Service
    from engram.transport.answers import DocumentsListed, DocumentView
    from engram.transport.cli.document_files import SourceFile

ADD_EXAMPLES = """\b
Examples:
  engram documents add handbook.md report.pdf
  engram documents add docs/ --recursive --project apollo --tag manual
\b
Text is kept as it is and must be UTF-8. Of HTML, PDF and DOCX the text is
searched; the bytes stay as they came. In directories, files that are neither
are passed over.
"""

LIST_EXAMPLES = """\b
Examples:
  engram documents list
  engram documents list --project apollo --json
"""

SHOW_EXAMPLES = """\b
Examples:
  engram documents show mem_…
  engram documents show mem_… --json | jq .progress
"""

GET_EXAMPLES = """\b
Examples:
  engram documents get mem_… -o handbook.md
  engram documents get mem_… | sha256sum
"""

REMOVE_EXAMPLES = """\b
Examples:
  engram documents remove mem_…
"""

Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="What to keep.")]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-r", help="Keep the files below directories too.")
]
DocumentArgument = Annotated[
    str, typer.Argument(metavar="DOCUMENT", help="The id of the document, or of its memory.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
]
Page = Annotated[
    int,
    typer.Option("--limit", "-n", min=1, max=limits.DOCUMENT_PAGE_MAX, help="Documents shown."),
]
Offset = Annotated[int, typer.Option(min=0, help="How many to skip.")]
OneProject = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of this project. [default: all]")
]
AnyTags = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", metavar="TAG", help="Only with this tag; repeat, any may match."),
]


@shared_options
def add_documents(
    invocation: Invocation,
    file: Files,
    *,
    recursive: Recursive = False,
    project: OwnProject = None,
    tag: OwnTags = None,
    type_: Type = "context",
    category: OwnCategory = "general",
    source: OwnSource = None,
    importance: Importance = 2,
) -> None:
    """Keep files as documents, byte for byte, and print the ids of their memories."""
    from engram.transport.cli.document_files import find_files
    from engram.transport.requests import DocumentFields

    fields = parse(
        DocumentFields,
        project=project,
        tags=tag or None,
        memory_type=type_,
        category=category,
        source=source,
        importance=importance,
    )
    files = find_files(file, recursive=recursive)
    options = fields.to_options(fields.project)
    answer, is_refused = invocation.run_local(
        lambda service, me: _add_all(service, me, files, options)
    )
    invocation.show(answer, lambda: _print_added(answer))
    if is_refused:
        raise SystemExit(FAILED)


@shared_options
def list_documents(
    invocation: Invocation,
    *,
    limit: Page = 20,
    offset: Offset = 0,
    project: OneProject = None,
    tag: AnyTags = None,
) -> None:
    """List documents, the newest first."""
    from engram.transport.answers import documents_listed
    from engram.transport.requests import ListDocuments

    query = parse(
        ListDocuments, limit=limit, offset=offset, project=project, tags=tag or None
    ).to_model()
    answer = documents_listed(
        invocation.run_local(lambda service, me: service.documents.list(me, query))
    )
    invocation.show(answer, lambda: _print_list(answer))


@shared_options
def show_document(invocation: Invocation, document: DocumentArgument) -> None:
    """Show what a document is, and how much of it is searched by now."""
    from engram.transport.answers import document_view

    answer = document_view(
        invocation.run_local(lambda service, me: service.documents.show(me, document))
    )
    invocation.show(answer, lambda: _print_document(answer))


@shared_options
def get_document(
    invocation: Invocation, document: DocumentArgument, *, output: Output = None
) -> None:
    """Write a document's bytes to a file, or to stdout."""
    from engram.errors import InvalidRequestError
    from engram.transport.cli.document_files import save_body

    if invocation.as_json and output is None:
        raise InvalidRequestError("--json needs --output: stdout cannot hold both")

    async def save(service: Service, me: Principal) -> dict[str, Any]:
        found = await service.documents.get(me, document)
        await save_body(service, me, found, output)
        return {"path": str(output), "size_bytes": found.size_bytes, "sha256": found.sha256}

    answer = invocation.run_local(save)
    if output is not None:
        from engram.transport.cli.output import notice

        size = counted(answer["size_bytes"], "byte")
        invocation.show(answer, lambda: notice(f"wrote {size} to {visible_line(str(output))}"))


@shared_options
def remove_document(
    invocation: Invocation, document: DocumentArgument, *, yes: Yes = False
) -> None:
    """Remove a document with everything derived from it; this cannot be undone."""
    from engram.transport.answers import entry_removed
    from engram.transport.cli.output import say

    confirm(f"Remove the document {document} for good?", yes=yes)
    answer = entry_removed(
        invocation.run_local(lambda service, me: service.documents.remove(me, document))
    )
    invocation.show(answer, lambda: say(f"removed {answer['id']}"))


async def _add_all(
    service: Service, me: Principal, files: list[SourceFile], options: MemoryOptions
) -> tuple[dict[str, Any], bool]:
    """Keep and index files; return the answer, and whether a file was refused that was named."""
    from engram.model.document import StoredDocument
    from engram.transport.answers import document_stored
    from engram.transport.cli.document_files import add_files, index_documents
    from engram.transport.cli.progress import progress

    kept, skipped = list[StoredDocument](), list[dict[str, str]]()
    is_refused, total = False, sum(file.size_bytes for file in files)
    with progress("Keeping", total=total, in_bytes=True) as advance:
        async for outcome in add_files(service, me, files, options=options, advance=advance):
            if isinstance(outcome, StoredDocument):
                kept.append(outcome)
            else:
                skipped.append({"path": str(outcome.file.path), "reason": str(outcome.error)})
                is_refused = is_refused or not outcome.file.is_found
    waiting = [stored.document for stored in kept if stored.document.state == "indexing"]
    total = sum(document.text_bytes for document in waiting)
    with progress("Indexing", total=total, in_bytes=True) as advance:
        await index_documents(service, me, waiting, advance=advance)
    views = [
        {**document_stored(stored), "name": stored.document.name, "state": now.state}
        for stored in kept
        for now in [await service.documents.get(me, stored.document.id)]
    ]
    return {"documents": views, "skipped": skipped}, is_refused


def _print_added(answer: dict[str, Any]) -> None:
    from engram.transport.cli.output import notice, say

    for document in answer["documents"]:
        say(document["id"])
        name = visible_line(document["name"] or document["id"])
        if "duplicate_of" in document:
            notice(f"{name} was there already; not kept again")
        elif document["state"] == "indexing" and "problem" in document:
            notice(f"{name} is kept, and waits: {visible_line(document['problem'])}")
        elif document["state"] == "indexing":
            notice(f"{name} is being indexed by another process")
        elif document["state"] == "unreadable":
            notice(f"{name} is kept, and found by its name alone: no text could be made of it")
    for each in answer["skipped"]:
        notice(f"skipped {visible_line(each['path'])}: {visible_line(each['reason'])}")
    notice(f"{counted(len(answer['documents']), 'document')} kept")


def _print_list(answer: DocumentsListed) -> None:
    from engram.transport.cli.moments import short_time
    from engram.transport.cli.output import notice, show_table
    from engram.transport.cli.paging import page_notice

    show_table(
        ("MEMORY", "NAME", "BYTES", "STATE", "PROJECT", "ADDED"),
        (
            (
                view["id"],
                view["name"] or "",
                f"{view['size_bytes']:,}",
                _state(view),
                view["project"],
                short_time(view["created_at"]),
            )
            for view in answer["documents"]
        ),
    )
    notice(page_notice(answer["count"], answer["total"], answer["next_offset"], "document"))


def _print_document(view: DocumentView) -> None:
    from engram.transport.cli.moments import short_time
    from engram.transport.cli.output import paint, say

    tags = "".join(f" [{visible_line(tag)}]" for tag in view["tags"])
    say(f"{paint(view['id'], bold=True)}  {visible_line(view['name'] or '')}{tags}")
    facts = {
        "document": view["document_id"],
        "media type": view["media_type"],
        "bytes": f"{view['size_bytes']:,}",
        "sha256": view["sha256"],
        "project": view["project"],
        "added": short_time(view["created_at"]),
        "searched": _state(view),
        "problem": view.get("problem"),
    }
    for name, value in facts.items():
        if value is not None:
            say(f"  {name:<12}{visible_line(value)}")


def _state(view: DocumentView) -> str:
    if view["state"] == "indexing":
        return f"indexing, {view['progress']:.0%}"
    return "forgotten" if view.get("forgotten") else view["state"]

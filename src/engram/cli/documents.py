"""`engram documents`: add, list, show, get, remove."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from engram import limits
from engram.api.documents import DocumentFields, document_stored
from engram.cli.invocation import FAILED, Invocation
from engram.cli.operations import Given, request_options
from engram.cli.options import shared_options
from engram.cli.output import (
    Advance,
    bracketed,
    counted,
    page_summary,
    print_line,
    print_notice,
    print_wrapped,
    progress,
    short_time,
    show_table,
    styled,
    visible_line,
)
from engram.cli.trash import tell_restorable
from engram.errors import EngramError, InvalidRequestError
from engram.model.document import StoredDocument
from engram.model.request import parse
from engram.model.value import plain, replace

if TYPE_CHECKING:
    from engram.api.documents import DocumentsListed, DocumentView
    from engram.model.access import Principal
    from engram.model.document import Document
    from engram.model.memory import Tombstone
    from engram.service import Service


Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files to store.")]
Recursive = Annotated[
    bool,
    typer.Option("--recursive", "-r", help="Also store the files in directories, recursively."),
]
DocumentArgument = Annotated[
    str, typer.Argument(metavar="DOCUMENT", help="Id of the document or of its memory.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write. [default: stdout]"),
]


@request_options(DocumentFields, without=("name",))
def add_documents(
    invocation: Invocation, file: Files, *, recursive: Recursive = False, given: Given
) -> None:
    """Store files as documents, byte for byte, and print the ids of their memories.

    Examples:
      engram documents add handbook.md report.pdf
      engram documents add docs/ --recursive --project apollo --tag manual

    Text must be UTF-8. HTML, PDF and DOCX files are converted to text for search;
    their bytes are stored unchanged. Other files in directories are skipped.
    """
    fields = parse(DocumentFields, given)
    files = find_files(file, recursive=recursive)
    answer, is_refused = invocation.run_local(
        lambda service, me: _add_all(service, me, files, fields)
    )
    invocation.show(answer, lambda: _print_added(answer))
    if is_refused:
        raise SystemExit(FAILED)


def print_documents(answer: DocumentsListed) -> None:
    """List documents, newest first.

    Examples:
      engram documents list
      engram documents list --project apollo --json
    """
    show_table(
        ("MEMORY", "NAME", "BYTES", "STATE", "PROJECT", "ADDED"),
        (
            (
                each.id,
                each.name or "",
                f"{each.size_bytes:,}",
                _state(each),
                each.project,
                short_time(each.created_at),
            )
            for each in answer.documents
        ),
    )
    print_notice(page_summary(answer.count, answer.total, answer.next_offset, "document"))


def print_document(document: DocumentView) -> None:
    """Show a document's properties and its indexing progress.

    Examples:
      engram documents show mem_…
      engram documents show mem_… --json | jq .progress
    """
    tags = bracketed(document.tags)
    print_wrapped(f"{styled(document.id, bold=True)}  {visible_line(document.name or '')}{tags}")
    properties = {
        "document": document.document_id,
        "media type": document.media_type,
        "bytes": f"{document.size_bytes:,}",
        "sha256": document.sha256,
        "project": document.project,
        "added": short_time(document.created_at),
        "state": _state(document),
        "problem": document.problem,
    }
    for name, value in properties.items():
        if value is not None:
            print_line(f"  {name:<12}{visible_line(value)}")


def print_removed_document(answer: Tombstone) -> None:
    """Move a document to the trash, or remove it for good with --forever.

    Examples:
      engram documents remove mem_…
      engram documents remove mem_… --forever --yes
    """
    print_line(f"removed {answer.id}")
    tell_restorable(answer.restorable_until, answer.id)


def _state(document: DocumentView) -> str:
    if document.state == "indexing":
        return f"indexing, {document.progress:.0%}"
    return "forgotten" if document.forgotten else document.state


@shared_options
def get_document(
    invocation: Invocation, document: DocumentArgument, *, output: Output = None
) -> None:
    """Write a document's bytes to a file, or to stdout.

    Examples:
      engram documents get mem_… -o handbook.md
      engram documents get mem_… | sha256sum
    """
    if invocation.as_json and output is None:
        raise InvalidRequestError(
            "--json requires --output, because stdout cannot hold both the answer and the bytes"
        )

    async def save(service: Service, me: Principal) -> dict[str, Any]:
        found = await service.documents.get(me, document)
        await save_body(service, me, found, output)
        return {"path": str(output), "size_bytes": found.size_bytes, "sha256": found.sha256}

    answer = invocation.run_local(save)
    if output is not None:
        size = counted(answer["size_bytes"], "byte")
        invocation.show(
            answer, lambda: print_notice(f"wrote {size} to {visible_line(str(output))}")
        )


async def _add_all(
    service: Service, me: Principal, files: list[SourceFile], fields: DocumentFields
) -> tuple[dict[str, Any], bool]:
    """Store and index files; return the answer, and True if an explicitly named file was refused."""
    kept, skipped = list[StoredDocument](), list[dict[str, str]]()
    is_refused, total = False, sum(file.size_bytes for file in files)
    with progress("Storing", total=total, in_bytes=True) as advance:
        async for outcome in add_files(service, me, files, fields, advance=advance):
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
        {**plain(document_stored(stored)), "name": stored.document.name, "state": now.state}
        for stored in kept
        for now in [await service.documents.get(me, stored.document.id)]
    ]
    return {"documents": views, "skipped": skipped}, is_refused


def _print_added(answer: dict[str, Any]) -> None:
    for document in answer["documents"]:
        print_line(document["id"])
        name = visible_line(document["name"] or document["id"])
        if "duplicate_of" in document:
            print_notice(f"{name} is already stored")
        elif document["state"] == "indexing" and "problem" in document:
            print_notice(
                f"{name} is stored but not indexed yet: {visible_line(document['problem'])}"
            )
        elif document["state"] == "indexing":
            print_notice(f"{name} is being indexed by another process")
        elif document["state"] == "unreadable":
            print_notice(
                f"{name} is stored but can be found only by its name: it could not be converted to text"
            )
    for each in answer["skipped"]:
        print_notice(f"skipped {visible_line(each['path'])}: {visible_line(each['reason'])}")
    print_notice(f"{counted(len(answer['documents']), 'document')} stored")


READ_BYTES = 1_048_576
UNKNOWN_TYPE = "application/octet-stream"
"""Leaves the detection of the type to the service, from the name and the bytes."""


class SourceFile(NamedTuple):
    """A file to store as a document."""

    path: Path
    name: str
    size_bytes: int
    is_found: bool
    """True if the file was found in a directory, False if the caller named it."""


class Skipped(NamedTuple):
    """A file that was not stored, and why."""

    file: SourceFile
    error: EngramError


def find_files(paths: Sequence[Path], *, recursive: bool) -> list[SourceFile]:
    """Return the files in `paths` and, with `recursive`, those in directories.

    Hidden files and symbolic links are skipped unless they are named in `paths`.

    Raises:
        InvalidRequestError: a path cannot be read, or is a directory without `recursive`.
    """
    files = list[SourceFile]()
    for path in paths:
        if path.is_dir():
            if not recursive:
                raise InvalidRequestError(
                    f"{path} is a directory; add --recursive to store its files", field="FILE"
                )
            files += _below(path)
        else:
            files.append(_source(path, name=path.name, is_found=False))
    return files


async def add_files(
    service: Service,
    me: Principal,
    files: Sequence[SourceFile],
    fields: DocumentFields,
    *,
    advance: Advance,
) -> AsyncIterator[StoredDocument | Skipped]:
    """Store files one after the other and yield the outcome of each.

    Raises:
        EngramError: storing failed for another reason than the file; those yielded before are stored.
    """
    for file in files:
        try:
            yield await _add(service, me, file, fields, advance=advance)
        except InvalidRequestError as exc:
            yield Skipped(file, exc)


async def index_documents(
    service: Service, me: Principal, documents: Sequence[Document], *, advance: Advance
) -> None:
    """Index the documents that are pending, until done or until another process has the work."""
    waiting = {document.id: document for document in documents if document.state == "indexing"}
    while waiting and await service.document_indexing.work(me.organization_id):
        for document_id, before in list(waiting.items()):
            now = await service.documents.get(me, document_id)
            advance(now.text_bytes_indexed - before.text_bytes_indexed)
            waiting[document_id] = now
            if now.state != "indexing":
                del waiting[document_id]


async def save_body(service: Service, me: Principal, document: Document, path: Path | None) -> None:
    """Write a document's bytes to stdout, or to a file that is replaced atomically.

    Raises:
        InvalidRequestError: the file cannot be written.
    """
    import asyncio

    pieces = await service.documents.read_body(me, document)
    if path is None:
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    unfinished = path.with_name(f".{path.name}.{document.id}")
    try:
        with unfinished.open("xb") as file:
            async for piece in pieces:
                await asyncio.to_thread(file.write, piece)
        unfinished.replace(path)
    except OSError as exc:
        raise InvalidRequestError(f"cannot be written: {exc.strerror}", field=str(path)) from exc
    finally:
        unfinished.unlink(missing_ok=True)


async def _add(
    service: Service,
    me: Principal,
    file: SourceFile,
    fields: DocumentFields,
    *,
    advance: Advance,
) -> StoredDocument:
    if not file.size_bytes:
        raise InvalidRequestError("the file is empty")
    draft = replace(fields, name=file.name).draft(
        media_type=media_type_of(file.name), size_bytes=file.size_bytes
    )
    try:
        with file.path.open("rb") as opened:
            body = _read(opened, advance)
            return await service.documents.store_stream(me, draft, body)
    except OSError as exc:
        raise InvalidRequestError(f"cannot be read: {exc.strerror}") from exc


async def _read(file: BinaryIO, advance: Advance) -> AsyncIterator[bytes]:
    import asyncio

    while data := await asyncio.to_thread(file.read, READ_BYTES):
        advance(len(data))
        yield data


def media_type_of(name: str) -> str:
    """Guess the media type from a file name, independently of the machine's configuration."""
    import mimetypes

    guessed, encoding = mimetypes.MimeTypes().guess_type(name)
    return UNKNOWN_TYPE if guessed is None or encoding else guessed


def _below(directory: Path) -> Iterator[SourceFile]:
    for root, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                relative = path.relative_to(directory).as_posix()
                is_short = len(relative) <= limits.NAME_CHARACTERS_MAX
                yield _source(path, name=relative if is_short else name, is_found=True)


def _source(path: Path, *, name: str, is_found: bool) -> SourceFile:
    try:
        return SourceFile(path, name, path.stat().st_size, is_found)
    except OSError as exc:
        message = f"{path} cannot be read: {exc.strerror}"
        raise InvalidRequestError(message, field="FILE") from exc

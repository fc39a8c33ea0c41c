"""Files on their way into the store as documents, and out of it again."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engram import limits
from engram.errors import EngramError, InvalidRequestError
from engram.model.access import Principal
from engram.model.document import Document, DocumentDraft, StoredDocument
from engram.model.memory import MemoryOptions
from engram.service import Service
from engram.transport.cli.progress import Advance

READ_BYTES = 1_048_576
UNKNOWN_TYPE = "application/octet-stream"
"""The name and the bytes decide what it is."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to keep as a document."""

    path: Path
    name: str
    size_bytes: int
    is_found: bool
    """It was not named by the caller but lies in a directory that was."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not kept, and why."""

    file: SourceFile
    error: EngramError


def find_files(paths: Sequence[Path], *, recursive: bool) -> list[SourceFile]:
    """Return the files that `paths` name, and with `recursive` those below directories.

    Hidden files and what links lead to are passed over, unless they are named.

    Raises:
        InvalidRequestError: one of the paths cannot be read, or is a directory.
    """
    files = list[SourceFile]()
    for path in paths:
        if path.is_dir():
            if not recursive:
                raise InvalidRequestError(f"{path} is a directory: add --recursive", field="FILE")
            files += _below(path)
        else:
            files.append(_source(path, name=path.name, is_found=False))
    return files


async def add_files(
    service: Service,
    me: Principal,
    files: Sequence[SourceFile],
    *,
    options: MemoryOptions,
    advance: Advance,
) -> AsyncIterator[StoredDocument | Skipped]:
    """Keep files one after the other, and yield what became of each.

    Raises:
        EngramError: none can be kept any more; those yielded before are.
    """
    for file in files:
        try:
            yield await _add(service, me, file, options=options, advance=advance)
        except InvalidRequestError as exc:
            yield Skipped(file, exc)


async def index_documents(
    service: Service, me: Principal, documents: Sequence[Document], *, advance: Advance
) -> None:
    """Index what waits of these documents, unless another process is at it."""
    waiting = {document.id: document for document in documents if document.state == "indexing"}
    while waiting and await service.document_indexing.work(me.organization_id):
        for document_id, before in list(waiting.items()):
            now = await service.documents.get(me, document_id)
            advance(now.text_bytes_indexed - before.text_bytes_indexed)
            waiting[document_id] = now
            if now.state != "indexing":
                del waiting[document_id]


async def save_body(service: Service, me: Principal, document: Document, path: Path | None) -> None:
    """Write a document's bytes to a file, which is there whole or not at all, or to stdout.

    Raises:
        InvalidRequestError: the file cannot be written.
    """
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
    *,
    options: MemoryOptions,
    advance: Advance,
) -> StoredDocument:
    if not file.size_bytes:
        raise InvalidRequestError("the file is empty")
    draft = DocumentDraft(
        name=file.name,
        media_type=media_type_of(file.name),
        options=options,
        size_bytes=file.size_bytes,
    )
    try:
        with file.path.open("rb") as opened:
            body = _read(opened, advance)
            return await service.documents.store_stream(me, draft, body)
    except OSError as exc:
        raise InvalidRequestError(f"cannot be read: {exc.strerror}") from exc


async def _read(file: BinaryIO, advance: Advance) -> AsyncIterator[bytes]:
    while data := await asyncio.to_thread(file.read, READ_BYTES):
        advance(len(data))
        yield data


def media_type_of(name: str) -> str:
    """Return the media type that a file's name tells; the same on every machine."""
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

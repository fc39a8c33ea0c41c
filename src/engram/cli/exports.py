"""`engram export`, and `engram import` of what it wrote: everything of an organisation in one file."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from engram.cli.invocation import FAILED, Invocation
from engram.cli.operations import BY_NAME, Given, request_options
from engram.cli.output import (
    Advance,
    counted,
    print_line,
    print_notice,
    progress,
    visible_line,
)
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.export import ExportRequest, ImportReceipt
from engram.model.request import parse

if TYPE_CHECKING:
    from engram.model.access import Principal
    from engram.service import Service

STDIN = Path("-")
SOURCE = "engram"
"""Names an export of Engram among the sources of `engram import`."""

READ_BYTES = 262_144
_ENDING = ".zst"

File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="File to write. [default: stdout]")
]
Zstd = Annotated[bool, typer.Option("--zstd", help="Compress; implied by a name that ends so.")]


@request_options(ExportRequest, without=("compression",))
def export(invocation: Invocation, file: File = None, *, zstd: Zstd = False, given: Given) -> None:
    """Write all that is stored to one file, byte for byte, without the secrets of keys.

    Examples:
      engram export everything.ndjson
      engram export harbour.ndjson.zst --project harbour
      engram export --subject alice | jq -r 'select(.type == "message").content'

    The first line is a header, and the last a manifest with counts and hashes:
    a file without it is incomplete. `engram import FILE` stores it again, here or
    elsewhere. What is written while the export runs may or may not be in it.
    """
    if invocation.as_json and file is None:
        raise InvalidRequestError(
            "--json requires FILE, because stdout cannot hold both the answer and the export"
        )
    is_packed = zstd or (file is not None and file.suffix == _ENDING)
    given = {**given, "compression": "zstd" if is_packed else "none"}
    request = parse(ExportRequest, given)
    with _replacing(file) as output, progress("Exporting", in_bytes=True) as advance:
        size = _write_remote(invocation, given, output, advance)
        if size is None:
            size = invocation.run_local(
                lambda service, me: _write(service, me, request, output, advance)
            )
    if file is not None:
        answer = {"path": str(file), "size_bytes": size}
        invocation.show(answer, lambda: print_notice(_written(file, size)))


def _written(file: Path, size: int) -> str:
    return f"wrote {counted(size, 'byte')} to {visible_line(str(file))}"


def _write_remote(
    invocation: Invocation, given: Given, output: BinaryIO, advance: Advance
) -> int | None:
    """Write the export of the server of the settings; None if there is none."""
    server = invocation.server()
    if server is None:
        return None
    from engram.cli.remote import download

    size = 0
    url, key = server.url or "", server.api_key
    with download(url, api_key=key, operation=BY_NAME["export"], given=given) as pieces:
        for piece in pieces:
            output.write(piece)
            size += len(piece)
            advance(len(piece))
    return size


async def _write(
    service: Service, me: Principal, request: ExportRequest, output: BinaryIO, advance: Advance
) -> int:
    import asyncio

    size = 0
    async for piece in await service.exports.export(me, request):
        await asyncio.to_thread(output.write, piece)
        size += len(piece)
        advance(len(piece))
    return size


@contextmanager
def _replacing(path: Path | None) -> Generator[BinaryIO]:
    """Yield a file that takes its name when the block has written all of it, or stdout.

    Raises:
        InvalidRequestError: it cannot be written.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("xb") as file:
            unfinished.chmod(0o600)
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as exc:
        raise InvalidRequestError(f"cannot be written: {exc.strerror}", field=str(path)) from exc
    finally:
        unfinished.unlink(missing_ok=True)


def find_export(source: str | None, path: Path | None) -> Path | None:
    """Return the export that the arguments of `engram import` name; None if they name a source.

    Raises:
        InvalidRequestError: there is no PATH after `engram`.
    """
    if source == SOURCE:
        if path is None:
            raise InvalidRequestError("name the file of an export", field="PATH")
        return path
    if source is None or path is not None:
        return None
    file = Path(source)
    return file if file.is_file() and _is_export(file) else None


def _is_export(file: Path) -> bool:
    """Return True if a file begins as an export does, compressed or not."""
    from engram.transfer.compression import expand_beginning
    from engram.transfer.export_format import BEGINNING_BYTES, is_header

    try:
        with file.open("rb") as opened:
            return is_header(expand_beginning(opened.read(BEGINNING_BYTES)))
    except (InvalidRequestError, OSError):
        return False


def import_export(invocation: Invocation, path: Path, *, dry_run: bool) -> None:
    """Store an export, or only verify it; exit with a failure if not all of it could be stored."""
    if path != STDIN and not path.is_file():
        raise NotFoundError("file", str(path))
    total = None if path == STDIN else path.stat().st_size
    label = "Verifying" if dry_run else "Importing"
    with progress(label, total=total, in_bytes=True) as advance:
        pieces = _read(path, advance=advance)
        if dry_run:
            _show_verified(invocation, _verify(pieces))
            return
        receipt = _send(invocation, pieces)
    invocation.show(receipt, lambda: _print_receipt(receipt))
    if receipt.quota_warning:
        print_notice(receipt.quota_warning)
    if receipt.problems:
        raise SystemExit(FAILED)


def _send(invocation: Invocation, pieces: Iterable[bytes]) -> ImportReceipt:
    server = invocation.server()
    if server is not None:
        from engram.cli.remote import upload

        url, key = server.url or "", server.api_key
        answered = upload(url, api_key=key, operation=BY_NAME["import"], body=pieces)
        if answered.warning:
            print_notice(answered.warning)
        return answered.answer

    async def store(service: Service, me: Principal) -> ImportReceipt:
        receipt = await service.exports.import_stream(me, _async(pieces))
        await service.background.work(me.organization_id)
        return receipt

    return invocation.run_local(store)


def _verify(pieces: Iterable[bytes]) -> dict[str, int]:
    """Read an export to its end; return how many lines of each type it has."""
    import asyncio

    from engram.transfer.importing import verify_bytes

    return asyncio.run(verify_bytes(_async(pieces)))


def _show_verified(invocation: Invocation, counts: dict[str, int]) -> None:
    def show() -> None:
        for kind, count in counts.items():
            print_line(f"{count:>12,} {kind}")
        print_notice("the file is complete, and its hashes are right; nothing was stored")

    invocation.show({"dry_run": True, "lines": counts}, show)


def _print_receipt(receipt: ImportReceipt) -> None:
    for label, counts in (("stored", receipt.stored), ("here already", receipt.present)):
        if counts:
            listed = ", ".join(
                counted(count, _NOUNS.get(kind, kind)) for kind, count in counts.items()
            )
            print_line(f"{label}: {listed}")
    if not receipt.stored:
        print_line("nothing new was stored")
    if receipt.erased:
        print_line(f"left out, because deleted here before: {receipt.erased:,}")
    for problem in receipt.problems:
        line = f"{problem.kind} {problem.id}: {problem.reason}"
        print_line(f"not stored: {visible_line(line)}")
    unlisted = receipt.conflicts + receipt.refused - len(receipt.problems)
    if unlisted:
        print_line(f"not stored: {unlisted:,} more")
    if receipt.keys:
        keys = counted(receipt.keys, "key")
        print_notice(f"the export names {keys}; they have no secrets there: make new ones")


_NOUNS = {"forgotten": "forgotten conversation", "feedback": "rating"}
"""Where the name of a kind has no plural."""


def _read(path: Path, *, advance: Advance) -> Iterator[bytes]:
    """Yield the bytes of a file, or of stdin for `-`.

    Raises:
        InvalidRequestError: it cannot be read.
    """
    try:
        with sys.stdin.buffer if path == STDIN else path.open("rb") as file:
            while data := file.read(READ_BYTES):
                advance(len(data))
                yield data
    except OSError as exc:
        raise InvalidRequestError(f"cannot be read: {exc.strerror}", field=str(path)) from exc


async def _async(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    import asyncio

    iterator = iter(pieces)
    while (piece := await asyncio.to_thread(next, iterator, None)) is not None:
        yield piece

"""Read the JSON files of an export: in a zip archive, or one that was taken out of it."""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from engram import limits
from engram.sources.documents import read_elements
from engram.sources.lines import parse_value
from engram.sources.values import SourceError, Tally


@contextmanager
def open_archive(path: Path) -> Generator[zipfile.ZipFile]:
    """Open a zip archive.

    Raises:
        SourceError: it is none, is damaged, or has more entries than an archive may have.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > limits.EXPORT_ENTRIES_MAX:
                raise SourceError(f"has more than {limits.EXPORT_ENTRIES_MAX:,} entries")
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as exc:
        raise SourceError(f"is not a readable zip archive: {exc}") from exc


def read_conversations(path: Path, tally: Tally) -> Iterator[dict[str, Any]]:
    """Yield the elements of the files `conversations….json` of an export, one at a time."""
    if path.suffix != ".zip":
        with path.open("rb") as file:
            yield from read_elements(file, tally)
        return
    with open_archive(path) as archive:
        for name in sorted(archive.namelist()):
            if PurePosixPath(name).match("conversations*.json"):
                with archive.open(name) as file:
                    yield from read_elements(cast("BinaryIO", file), tally)


def read_entry(archive: zipfile.ZipFile, name: str) -> object:
    """Return the value of a JSON file in an archive, None if there is none or it is too large."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        return None
    with archive.open(info) as file:
        data = file.read(limits.SOURCE_LINE_BYTES_MAX + 1)
    return None if len(data) > limits.SOURCE_LINE_BYTES_MAX else parse_value(data)

"""Read a file of JSON lines: bounded, from an offset, and one bad line costs one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import msgspec

from engram import limits
from engram.sources.values import SourceFile, Tally

Record = dict[str, Any]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


def read_records(file: SourceFile, tally: Tally) -> Iterator[Record]:
    """Yield the JSON object of each line; `tally.end` is then behind that line.

    A last line that is not complete is left for the next time.
    """
    with file.path.open("rb") as lines:
        lines.seek(file.start)
        tally.end = file.start
        for line in _whole_lines(lines, tally):
            record = parse_record(line)
            if record is None and not line.endswith(b"\n"):
                return  # Torn: whoever writes it has not come to its end.
            tally.end += len(line)
            if not line.strip():
                continue
            tally.read += 1
            if record is None:
                tally.skip("invalid JSON")
            else:
                yield record


def parse_record(line: bytes | str) -> Record | None:
    """Return the object that a line holds, None if it holds none."""
    value = parse_value(line)
    return cast("Record", value) if isinstance(value, dict) else None


def parse_value(text: bytes | str) -> object:
    """Return the value of a JSON text, None if it is no JSON."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return _parse_loosely(data)


def _parse_loosely(line: bytes) -> object:
    """Parse what JavaScript writes and strict parsers refuse: halves of surrogate pairs."""
    try:
        return json.loads(line.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _whole_lines(file: BinaryIO, tally: Tally) -> Iterator[bytes]:
    """Yield lines with their ends; one that is too long is counted and passed over."""
    bound = limits.SOURCE_LINE_BYTES_MAX
    while line := file.readline(bound):
        if len(line) < bound or line.endswith(b"\n"):
            yield line
            continue
        length = len(line)
        while line and not line.endswith(b"\n"):
            line = file.readline(bound)
            length += len(line)
        if not line:
            return  # Torn, and too long already.
        tally.end += length
        tally.read += 1
        tally.skip("line too long")

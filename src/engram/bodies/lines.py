"""Lines of a file descriptor, each at most as long as a bound, and the ids of messages in them.

Only the standard library is imported: the bridge of `engram mcp` needs this before anything else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from engram import limits

READ_BYTES = 1 << 16


class LineTooLongError(Exception):
    """A line was longer than its bound; the rest of it was skipped."""


def split_lines(descriptor: int, *, bytes_max: int) -> Iterator[bytes | LineTooLongError]:
    """Yield the lines of a file descriptor until it ends; one too long comes as an error."""
    pieces, size = list[bytes](), 0
    while data := os.read(descriptor, READ_BYTES):
        *ended, rest = data.split(b"\n")
        for piece in ended:
            yield _joined(pieces, piece, size, bytes_max)
            pieces, size = [], 0
        size += len(rest)
        if size <= bytes_max:
            pieces.append(rest)
    if size:
        yield _joined(pieces, b"", size, bytes_max)


def _joined(
    pieces: list[bytes], last: bytes, size: int, bytes_max: int
) -> bytes | LineTooLongError:
    if size + len(last) > bytes_max:
        return LineTooLongError(f"a line is longer than {bytes_max:,} bytes")
    return b"".join([*pieces, last])


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however often that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def id_of_refused(line: bytes) -> str | int | None:
    """Return the id of a refused request, so that the error can name it.

    Only a short line is parsed, which cannot take much memory however it is nested.
    """
    if len(line) > limits.JSON_INLINE_BYTES_MAX:
        return None
    given = parsed_object(line)
    return usable_id(given.get("id")) if "method" in given else None


def parsed_object(text: bytes) -> Mapping[str, Any]:
    """Return the object that a JSON text holds; an empty one for anything else."""
    try:
        return as_object(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def as_object(value: object) -> Mapping[str, Any]:
    """Return a value of a JSON text if it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def usable_id(request_id: object) -> str | int | None:
    """Return an id that an answer can carry; to Python, `true` would be a number."""
    match request_id:
        case bool():
            return None
        case int() | str():
            return request_id
        case _:
            return None

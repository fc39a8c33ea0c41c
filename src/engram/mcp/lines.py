"""Lines of standard input and output, on daemon threads that cannot block the end of the process.

The threads use bare file descriptors: a thread inside a buffered reader would crash the interpreter
when it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, cast

from engram import limits

STDIN, STDOUT, STDERR = 0, 1, 2

READ_BYTES = 1 << 16


class LineTooLongError(Exception):
    """A line was longer than its bound; the rest of it was skipped."""


async def read_lines(descriptor: int, *, bytes_max: int) -> AsyncIterator[bytes | LineTooLongError]:
    """Yield the lines of a file descriptor until it ends; one too long comes as an error."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | LineTooLongError | None] = asyncio.Queue()
    room = _Room()

    def pump() -> None:
        with suppress(RuntimeError):  # the event loop is closed
            with suppress(OSError):  # a terminal that went away is an end of input too
                for line in _split_lines(descriptor, bytes_max):
                    room.take(line)
                    loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    while (line := await lines.get()) is not None:
        room.give_back(line)
        yield line


class _Room:
    """Bounds the lines that are read ahead and their bytes; a longer line is passed on alone."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._lines = self._bytes = 0

    def take(self, line: bytes | LineTooLongError) -> None:
        size = _size_of(line)
        with self._condition:
            self._condition.wait_for(lambda: self._has_room(size))
            self._lines += 1
            self._bytes += size

    def give_back(self, line: bytes | LineTooLongError) -> None:
        with self._condition:
            self._lines -= 1
            self._bytes -= _size_of(line)
            self._condition.notify()

    def _has_room(self, size: int) -> bool:
        is_short = self._lines < limits.LINES_WAITING_MAX
        return not self._lines or (
            is_short and self._bytes + size <= limits.LINES_BYTES_WAITING_MAX
        )


def _size_of(line: bytes | LineTooLongError) -> int:
    return len(line) if isinstance(line, bytes) else 0


class LineWriter:
    """Writes lines to a file descriptor in their order, without making the caller wait."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._pump, name="stdout", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue a line, given without its end."""
        self._lines.put(line + b"\n")

    def close(self) -> None:
        """Wait until everything is written, up to a timeout."""
        self._lines.put(None)
        self._thread.join(limits.STDIO_FLUSH_S)

    def _pump(self) -> None:
        with suppress(BrokenPipeError):  # the client is gone, and the input will end too
            while (line := self._lines.get()) is not None:
                _write_all(self._descriptor, line)


def claim_stdout() -> int:
    """Return a descriptor for what was stdout, and send stray output to stderr instead."""
    private = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    return private


def _split_lines(descriptor: int, bytes_max: int) -> Iterator[bytes | LineTooLongError]:
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


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def id_of_refused(line: bytes) -> str | int | None:
    """Return the id of a refused request, so that the error can name it.

    Only a short line is parsed, which cannot take much memory however it is nested.
    """
    if len(line) > limits.JSON_INLINE_BYTES_MAX:
        return None
    try:
        decoded: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    given = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    return usable_id(given.get("id")) if "method" in given else None


def usable_id(request_id: object) -> str | int | None:
    """Return an id that an answer can carry; to Python, `true` would be a number."""
    match request_id:
        case bool():
            return None
        case int() | str():
            return request_id
        case _:
            return None

"""Lines of standard input and output, on daemon threads that cannot block the end of the process.

The threads use bare file descriptors: a thread inside a buffered reader would crash the interpreter
when it ends.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from queue import SimpleQueue

from engram import limits
from engram.bodies.lines import LineTooLongError, split_lines, write_all

STDIN, STDOUT, STDERR = 0, 1, 2


async def read_lines(descriptor: int, *, bytes_max: int) -> AsyncIterator[bytes | LineTooLongError]:
    """Yield the lines of a file descriptor until it ends; one too long comes as an error."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | LineTooLongError | None] = asyncio.Queue()
    room = _Room()

    def pump() -> None:
        with suppress(RuntimeError):  # the event loop is closed
            with suppress(OSError):  # a terminal that went away is an end of input too
                for line in split_lines(descriptor, bytes_max=bytes_max):
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
                write_all(self._descriptor, line)


def claim_stdout() -> int:
    """Return a descriptor for what was stdout, and send stray output to stderr instead."""
    private = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    return private

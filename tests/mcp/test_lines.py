"""Lines of a file descriptor: whole, in order, bounded."""

from __future__ import annotations

import os
from collections.abc import Iterable

import anyio
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.bodies.lines import LineTooLongError
from engram.mcp.lines import LineWriter, read_lines

A_LINE = st.binary(max_size=40).filter(lambda line: b"\n" not in line)


async def lines_of(*pieces: bytes, bytes_max: int = 1_000_000) -> list[bytes | LineTooLongError]:
    """Return the lines of a pipe into which `pieces` are written one after another."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for piece in pieces:
                pipe.write(piece)

    lines = list[bytes | LineTooLongError]()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, write)
            async for line in read_lines(reading, bytes_max=bytes_max):
                lines.append(line)
    os.close(reading)
    return lines


def joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@given(st.lists(A_LINE, max_size=10), st.integers(1, 50))
async def test_lines_come_whole_however_they_were_cut(lines: list[bytes], size: int) -> None:
    text = joined(lines)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]

    assert await lines_of(*pieces) == lines


async def test_a_last_line_needs_no_end() -> None:
    assert await lines_of(b"one\ntwo") == [b"one", b"two"]


async def test_more_lines_than_wait_at_once_all_come() -> None:
    lines = [b"%d" % number for number in range(limits.LINES_WAITING_MAX * 3)]

    assert await lines_of(joined(lines)) == lines


async def test_a_line_over_its_bound_is_reported_and_skipped() -> None:
    first, second, third = await lines_of(b"x" * 200_000, b"x\nnext\n", b"y" * 11, bytes_max=10)

    assert isinstance(first, LineTooLongError)
    assert second == b"next"
    assert isinstance(third, LineTooLongError)


async def test_a_descriptor_that_cannot_be_read_is_at_its_end() -> None:
    reading, writing = os.pipe()

    assert [line async for line in read_lines(writing, bytes_max=10)] == []

    os.close(reading)
    os.close(writing)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_written_lines_come_in_their_order(lines: list[bytes]) -> None:
    reading, writing = os.pipe()
    writer = LineWriter(writing)

    for line in lines:
        writer.write(line)
    writer.close()

    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == joined(lines)


def test_a_writer_without_a_reader_ends() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LineWriter(writing)

    writer.write(b"nobody reads this")
    writer.close()

    os.close(writing)

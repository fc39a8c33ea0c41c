"""A payload is read as soon as it is whole, and no longer than allowed."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.hooks.reading import read_object


@pytest.fixture
def ends() -> Generator[tuple[int, int]]:
    """Yield the ends of a pipe to read from and to write to."""
    reading, writing = os.pipe()
    yield reading, writing
    for each in (reading, writing):
        try:
            os.close(each)
        except OSError:
            continue  # The test closed it.


def read(descriptor: int, *, within_s: float = 30.0) -> dict[str, object]:
    return read_object(descriptor, deadline=time.monotonic() + within_s)


def test_a_stream_that_stays_open_is_not_waited_for(ends: tuple[int, int]) -> None:
    os.write(ends[1], b'{"prompt": "a } b"}\n')

    assert read(ends[0]) == {"prompt": "a } b"}


def test_a_value_in_pieces_is_read_when_it_is_whole(ends: tuple[int, int]) -> None:
    value = {"prompt": "}" * 200_000, "deep": {"a": {"b": 1}}}
    text = json.dumps(value).encode()
    writer = threading.Thread(
        target=lambda: [
            os.write(ends[1], text[at : at + 9_999]) for at in range(0, len(text), 9_999)
        ]
    )
    writer.start()

    assert read(ends[0]) == value
    writer.join()


@pytest.mark.parametrize(
    "text", [b"", b"not json", b"[1, 2]", b'"text"', b'{"a": ', b"\xff\xfe{}", b"{" * 100_000]
)
def test_what_is_no_object_is_nothing(ends: tuple[int, int], text: bytes) -> None:
    writer = threading.Thread(target=lambda: (os.write(ends[1], text), os.close(ends[1])))
    writer.start()

    assert read(ends[0]) == {}
    writer.join()


def test_a_stream_that_says_nothing_is_left_at_the_deadline(ends: tuple[int, int]) -> None:
    assert read(ends[0], within_s=0.01) == {}


def test_more_than_the_bound_is_not_read(ends: tuple[int, int]) -> None:
    size = limits.HOOK_INPUT_BYTES_MAX + 200_000

    def write() -> None:
        try:
            os.write(ends[1], b'{"a": "' + b"x" * size)
        except BrokenPipeError:
            return  # Nobody reads on.

    writer = threading.Thread(target=write)
    writer.start()
    assert read(ends[0]) == {}
    os.close(ends[0])
    writer.join()


@given(st.binary(max_size=2_000))
def test_any_bytes_give_an_object(data: bytes) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        assert isinstance(read(reading), dict)
    finally:
        os.close(reading)

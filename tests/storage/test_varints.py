"""SQLite's variable-length integers."""

from __future__ import annotations

import pytest

from engram.storage.sqlite.word_index import read_varints


@pytest.mark.parametrize(
    ("block", "numbers"),
    [
        (b"", []),
        (b"\x00", [0]),
        (b"\x7f\x01", [127, 1]),
        (b"\x81\x00", [128]),
        (b"\x82\x80\x01\x05", [2 * 2**14 + 1, 5]),
        (b"\xff" * 9 + b"\x03", [2**64 - 1, 3]),
        (b"\x05\x81", [5]),
    ],
)
def test_a_block_holds_one_number_after_the_other(block: bytes, numbers: list[int]) -> None:
    assert read_varints(block) == numbers

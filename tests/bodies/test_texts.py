"""Long strings taken out of JSON text and put back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import limits
from engram.bodies.json_text import (
    SLICE_BYTES,
    NotJsonError,
    decode,
    prepare,
    restore,
)
from tests.promises import promise

PIECES = st.sampled_from(["x", "é", "🦝", "\n", '"', "\\", "\\u00", "\x01", "\u2028", "\ud83e"])
LARGE = "🦝" * limits.JSON_INLINE_BYTES_MAX


def round_trip(value: Any, *, is_ascii: bool) -> Any:
    text = prepare(bytearray(json.dumps(value, ensure_ascii=is_ascii).encode()))
    return restore(json.loads(text.data), text.texts)


@promise("verbatim")
@given(st.lists(PIECES, min_size=1, max_size=8), st.integers(0, 20))
@settings(max_examples=50)
def test_a_text_cut_anywhere_is_the_same_text(pieces: list[str], shift: int) -> None:
    unit = "".join(pieces)
    text = "x" * shift + unit * (2 * SLICE_BYTES // len(unit) + 1)
    data = json.dumps(text).encode()

    assert decode(data, (1, len(data) - 1)) == json.loads(data)


@promise("verbatim")
@pytest.mark.parametrize("is_ascii", [True, False])
def test_long_texts_come_back_in_values_lists_and_names(*, is_ascii: bool) -> None:
    value = {"a": [LARGE, "short", {LARGE: LARGE + "!"}], "b": {"c": None}, "d": 1.5}

    assert round_trip(value, is_ascii=is_ascii) == value


def test_what_is_left_beside_long_texts_is_short() -> None:
    text = prepare(json.dumps({"a": LARGE}).encode())

    assert len(text.data) < 200
    assert list(text.texts.values()) == [LARGE]


def test_a_large_body_is_emptied_when_it_was_taken_apart() -> None:
    body = bytearray(json.dumps({"a": LARGE}).encode())

    prepare(body)

    assert body == b""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(NotJsonError):
        prepare('{"a":"Ģ"}'.encode(encoding))


@pytest.mark.parametrize("end", [b"\xff", b"\xed\xa0\x80", b"\x00", b"\\x", b"\\u00zz"])
def test_a_long_text_that_is_no_json_string_is_refused(end: bytes) -> None:
    with pytest.raises((NotJsonError, json.JSONDecodeError)):
        json.loads(prepare(b'["' + b"x" * limits.JSON_INLINE_BYTES_MAX + end + b'"]').data)

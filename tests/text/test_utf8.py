"""UTF-8 is decoded in any pieces, and errors name the first invalid byte."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import NotTextError
from engram.text.utf8 import Utf8Reader


def read(*pieces: bytes) -> str:
    """Return the text of a stream that is fed in pieces."""
    reader = Utf8Reader()
    return "".join(reader.feed(piece) for piece in pieces) + reader.finish()


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Draw bytes, mostly valid UTF-8, partitioned into pieces."""
    parts = draw(
        st.lists(
            st.text(st.characters(exclude_characters="\ufffd", codec="utf-8")).map(str.encode)
            | st.binary(max_size=2),
            max_size=5,
        )
    )
    data = b"".join(parts)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=5)))
    return data, [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]


@given(streams())
def test_a_stream_is_read_as_its_bytes_at_once(stream: tuple[bytes, list[bytes]]) -> None:
    data, pieces = stream
    whole = len(data.decode(errors="replace").partition("\ufffd")[0].encode())
    is_text = data.decode(errors="ignore").encode() == data

    if is_text:
        assert read(*pieces) == data.decode()
    else:
        with pytest.raises(NotTextError) as caught:
            read(*pieces)
        assert caught.value.offset_bytes == whole


def test_a_stream_read_from_the_middle_counts_from_its_beginning() -> None:
    reader = Utf8Reader(offset_bytes=1_000)
    reader.feed(b"abc\xc3")

    with pytest.raises(NotTextError, match="byte 1,003") as caught:
        reader.feed(b"(")

    assert caught.value.offset_bytes == 1_003


@pytest.mark.parametrize(
    "data", [b"\xed\xa0\x80", b"\xc0\x80", b"\xff\xfea\0", b"\xf4\x90\x80\x80"]
)
def test_what_only_looks_like_utf8_is_refused(data: bytes) -> None:
    with pytest.raises(NotTextError):
        read(data)

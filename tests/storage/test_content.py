"""Stored forms of texts: every one comes back byte for byte, and no damage goes unseen."""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from engram import limits
from engram.storage.codec import (
    GZIP,
    RAW,
    ZSTD,
    ContentCodec,
    ContentError,
    StoredContent,
    dictionary_number,
    train_dictionary,
)
from tests.promises import promise

pytestmark = promise("encodings")

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "while",
    "it",
    "rains",
    "in",
    "the",
    "old",
    "town",
]

texts = st.text(st.characters(exclude_categories=["Cs"]))


def chatter(number: int) -> str:
    """Return a sentence of its own that shares its words with all others."""
    return " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 40))


def trained(number: int = 1) -> ContentCodec:
    dictionary = train_dictionary(
        [chatter(index).encode() for index in range(500)], dictionary_bytes=8_192
    )
    assert dictionary is not None
    codec = ContentCodec()
    codec.add_dictionary(number, dictionary)
    return codec


def decode(codec: ContentCodec, stored: StoredContent) -> str:
    """Return the text of a stored form, as it comes from a column cast to a blob."""
    content = stored.content.encode() if isinstance(stored.content, str) else stored.content
    return codec.decode(content, encoding=stored.encoding, sha256=stored.sha256)


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@promise("verbatim")
@pytest.mark.parametrize("codec", [ContentCodec(), trained()], ids=["plain", "dictionary"])
@given(text=texts, repeats=st.integers(1, 200))
@example(text="\x00\r\x1b[31m\ufeff\U0001f469\u200d\U0001f680", repeats=1)
@example(text="", repeats=1)
def test_any_text_comes_back_as_it_was(codec: ContentCodec, text: str, repeats: int) -> None:
    stored = codec.encode(text * repeats)

    assert decode(codec, stored) == text * repeats
    assert stored.sha256 == sha256(text * repeats)
    assert stored.content_bytes == len((text * repeats).encode())


def test_text_below_the_threshold_is_kept_as_it_is() -> None:
    codec = trained()

    assert codec.encode("ä" * 63 + "a").encoding == RAW
    assert codec.encode("ä" * 64).encoding == "zstd:1"


def test_text_that_would_not_get_smaller_is_kept_as_it_is() -> None:
    incompressible = base64.b85encode(hashlib.shake_256(b"seed").digest(150)).decode()

    assert ContentCodec().encode(incompressible).encoding == RAW


def test_a_dictionary_makes_short_texts_smaller() -> None:
    text = chatter(7)

    with_dictionary = trained().encode(text)
    without = ContentCodec().encode(text)

    assert (with_dictionary.encoding, without.encoding) == ("zstd:1", ZSTD)
    assert len(with_dictionary.content) < len(without.content)


def test_texts_of_an_older_dictionary_stay_readable() -> None:
    codec = trained(1)
    stored = codec.encode(chatter(1))

    codec.add_dictionary(2, b"another dictionary of bare content")

    assert codec.encode(chatter(1)).encoding == "zstd:2"
    assert stored.encoding == "zstd:1"
    assert decode(codec, stored) == chatter(1)


def test_learning_an_older_dictionary_does_not_make_it_the_newest() -> None:
    codec = trained(2)

    codec.add_dictionary(1, b"an older dictionary")

    assert codec.newest_dictionary == 2


@pytest.mark.parametrize("text", ["short", "long " * 100, "\x00ü\r\n"])
def test_the_legacy_encodings_are_read(text: str) -> None:
    codec = ContentCodec()
    packed = base64.b64encode(gzip.compress(text.encode()))

    assert codec.decode(text.encode(), encoding=None, sha256=sha256(text)) == text
    assert codec.decode(packed, encoding=GZIP, sha256=sha256(text)) == text


@pytest.mark.parametrize(
    "encoding", ["zstd2", "ZSTD", "", "zstd:", "zstd:one", "zstd:-1", "zstd:²", "r2:raw", "gzip"]
)
def test_an_unknown_encoding_is_an_error(encoding: str) -> None:
    with pytest.raises(ContentError):
        trained().decode(b"text", encoding=encoding, sha256=sha256("text"))


def test_a_missing_dictionary_is_an_error() -> None:
    stored = trained(1).encode(chatter(1))
    codec = ContentCodec()

    assert codec.missing_dictionary(stored.encoding) == 1
    with pytest.raises(ContentError, match="dictionary 1"):
        decode(codec, stored)


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"another text", RAW),
        (b"another text", None),
        (b"\xff\xfe", RAW),
        (b"no frame", ZSTD),
        (zstandard.compress(b"text")[:-1], ZSTD),
        (b"", ZSTD),
        (b"no base64!", GZIP),
        (base64.b64encode(b"no gzip"), GZIP),
        (base64.b64encode(gzip.compress(b"text", mtime=0)[:-9]), GZIP),
        ("§".encode(), GZIP),
    ],
)
def test_damage_is_an_error(content: bytes, encoding: str | None) -> None:
    with pytest.raises(ContentError):
        ContentCodec().decode(content, encoding=encoding, sha256=sha256("text"))


def test_bytes_that_match_their_hash_but_are_no_text_are_an_error() -> None:
    data = b"\xff"

    with pytest.raises(ContentError):
        ContentCodec().decode(data, encoding=RAW, sha256=hashlib.sha256(data).digest())


@promise("fair")
def test_a_frame_that_would_fill_memory_is_refused_unread() -> None:
    bomb = b"\0" * (limits.MESSAGE_BYTES_MAX + 1)
    announced = zstandard.compress(bomb)
    compressor = zstandard.ZstdCompressor().compressobj()
    unannounced = compressor.compress(bomb) + compressor.flush()
    inflating = base64.b64encode(zlib.compress(bomb, wbits=31))

    for content, encoding in ((announced, ZSTD), (unannounced, ZSTD), (inflating, GZIP)):
        with pytest.raises(ContentError):
            ContentCodec().decode(content, encoding=encoding, sha256=b"\0" * 32)


def test_threads_may_share_a_codec() -> None:
    codec = trained()

    def round_trip(number: int) -> bool:
        text = chatter(number) * (1 + number % 50)
        return decode(codec, codec.encode(text)) == text

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(round_trip, range(2_000)))


def test_texts_with_nothing_in_common_give_no_dictionary() -> None:
    assert train_dictionary([b"a"], dictionary_bytes=1_024) is None


@pytest.mark.parametrize(
    ("encoding", "number"), [(None, None), (RAW, None), (ZSTD, None), ("zstd:12", 12)]
)
def test_an_encoding_names_its_dictionary(encoding: str | None, number: int | None) -> None:
    assert dictionary_number(encoding) == number

"""Encode texts for storage, compressed where that is smaller, and decode them byte for byte.

Every row names its encoding, and decoded text is checked against its SHA-256.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import zstandard

from engram import limits

RAW = "raw"
GZIP = "gzip+base64"
ZSTD = "zstd"
_WITH_DICTIONARY = "zstd:"
_LEVEL = 3
_GZIP_WBITS = 31
_NUMBER_DIGITS_MAX = 18
"""More digits than a row can have, and fewer than Python refuses to convert."""


class ContentError(Exception):
    """Stored content cannot be decoded; the message has the reason, the caller adds the row."""


@dataclass(frozen=True, slots=True)
class StoredContent:
    """An encoded text, its SHA-256 and its size before compression."""

    content: str | bytes
    encoding: str
    sha256: bytes
    content_bytes: int


class ContentCodec:
    """Encodes and decodes the texts of one organisation with its compression dictionaries.

    Safe for concurrent use; compressors are not, so each is used by one call at a time.
    """

    def __init__(self) -> None:
        self._dictionaries: dict[int, zstandard.ZstdCompressionDict] = {}
        self._newest: int | None = None
        self._announced: int | None = None
        self._compressors = defaultdict[int | None, list[zstandard.ZstdCompressor]](list)
        self._decompressors = defaultdict[int | None, list[zstandard.ZstdDecompressor]](list)

    @property
    def newest_dictionary(self) -> int | None:
        """The dictionary that new texts are compressed with."""
        return self._newest

    @property
    def awaited_dictionary(self) -> int | None:
        """The newest dictionary, if it was announced and is not loaded yet."""
        return self._announced if self._announced not in self._dictionaries else None

    def announce_dictionary(self, number: int | None) -> None:
        """Record the number of the newest dictionary, which is loaded later by `add_dictionary`.

        None if there is none any more.
        """
        self._announced = number
        if number is None and self._newest is not None:
            self.forget_dictionaries(self._newest)

    def forget_dictionaries(self, upto: int) -> None:
        """Compress nothing with a dictionary up to this number any more; texts can still be decoded."""
        later = [number for number in self._dictionaries if number > upto]
        self._newest = max(later, default=None)

    def add_dictionary(self, number: int, content: bytes) -> None:
        """Load a dictionary; new texts are compressed with the newest one."""
        dictionary = zstandard.ZstdCompressionDict(content)
        dictionary.precompute_compress(level=_LEVEL)  # pyright: ignore[reportUnknownMemberType] - the stub has no return type
        self._dictionaries[number] = dictionary
        self._newest = max(number, self._newest or number)

    def unpack_dictionary(self, number: int, packed: bytes) -> None:
        """Load a dictionary as it is stored.

        Raises:
            ContentError: it is damaged.
        """
        try:
            _refuse_bomb(packed)
            unpacker = zstandard.ZstdDecompressor()
            content = unpacker.decompress(packed, max_output_size=limits.MESSAGE_BYTES_MAX)
            self.add_dictionary(number, content)
        except zstandard.ZstdError as exc:
            raise ContentError(f"its dictionary {number} is damaged") from exc

    def missing_dictionary(self, encoding: str | None) -> int | None:
        """Return the dictionary that `encoding` needs if it is not loaded yet."""
        number = dictionary_number(encoding)
        return None if number is None or number in self._dictionaries else number

    def encode(self, text: str) -> StoredContent:
        """Encode a text."""
        return self._encode(text, self._newest)

    def _encode(self, text: str, number: int | None) -> StoredContent:
        data = text.encode()
        digest = hashlib.sha256(data).digest()
        if len(data) >= limits.COMPRESS_BYTES_MIN:
            packed = self._compress(data, number)
            if len(packed) < len(data):
                encoding = ZSTD if number is None else f"{_WITH_DICTIONARY}{number}"
                return StoredContent(packed, encoding, digest, len(data))
        return StoredContent(text, RAW, digest, len(data))

    def encode_alone(self, text: str) -> StoredContent:
        """Encode a text without a dictionary."""
        return self._encode(text, None)

    def recode(self, content: bytes, *, encoding: str) -> StoredContent:
        """Encode a stored text again, without the dictionary that it was encoded with.

        Raises:
            ContentError: it cannot be decoded.
        """
        try:
            return self.encode_alone(self._decode_bytes(content, encoding).decode())
        except UnicodeDecodeError as exc:
            raise ContentError("its text is not UTF-8") from exc

    def encode_bytes(self, data: bytes) -> StoredContent:
        """Encode a piece of a document, without a dictionary: it is too long to gain from one."""
        digest = hashlib.sha256(data).digest()
        packed = self._compress(data, None)
        if len(packed) < len(data):
            return StoredContent(packed, ZSTD, digest, len(data))
        return StoredContent(data, RAW, digest, len(data))

    def decode(self, content: bytes, *, encoding: str | None, sha256: bytes) -> str:
        """Decode a text; content that is not compressed is its UTF-8.

        Raises:
            ContentError: the encoding or its dictionary is unknown, or the text is not what was
                stored.
        """
        data = self.decode_bytes(content, encoding=encoding, sha256=sha256)
        try:
            return data.decode()
        except UnicodeDecodeError as exc:
            raise ContentError("its text is not UTF-8") from exc

    def decode_bytes(self, content: bytes, *, encoding: str | None, sha256: bytes) -> bytes:
        """Decode bytes.

        Raises:
            ContentError: as for a text.
        """
        data = self._decode_bytes(content, encoding)
        if hashlib.sha256(data).digest() != sha256:
            raise ContentError("its text does not match its SHA-256")
        return data

    def _decode_bytes(self, content: bytes, encoding: str | None) -> bytes:
        if encoding is None or encoding == RAW:
            return content
        if encoding == GZIP:
            return _decode_gzip(content)
        if encoding == ZSTD or encoding.startswith(_WITH_DICTIONARY):
            return self._decompress(content, dictionary_number(encoding))
        raise ContentError(f"its encoding {encoding!r} is unknown")

    def _compress(self, data: bytes, number: int | None) -> bytes:
        idle = self._compressors[number]
        try:
            compressor = idle.pop()
        except IndexError:
            # The row names the dictionary, so the frame does not have to.
            compressor = zstandard.ZstdCompressor(
                level=_LEVEL, dict_data=self._dictionary(number), write_dict_id=False
            )
        packed = compressor.compress(data)
        idle.append(compressor)
        return packed

    def _decompress(self, packed: bytes, number: int | None) -> bytes:
        if number is not None and number not in self._dictionaries:
            raise ContentError(f"its dictionary {number} is missing")
        idle = self._decompressors[number]
        try:
            decompressor = idle.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionary(number))
        try:
            _refuse_bomb(packed)
            return decompressor.decompress(packed, max_output_size=limits.MESSAGE_BYTES_MAX)
        except zstandard.ZstdError as exc:
            raise ContentError("its compressed form is damaged") from exc
        finally:
            idle.append(decompressor)

    def _dictionary(self, number: int | None) -> zstandard.ZstdCompressionDict | None:
        return None if number is None else self._dictionaries[number]


@lru_cache(maxsize=256)
def dictionary_number(encoding: str | None) -> int | None:
    """Return the number in `zstd:<number>`; None for the encodings without a dictionary.

    Raises:
        ContentError: the part after `zstd:` is not a number.
    """
    if encoding is None or not encoding.startswith(_WITH_DICTIONARY):
        return None
    digits = encoding.removeprefix(_WITH_DICTIONARY)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _NUMBER_DIGITS_MAX):
        raise ContentError(f"its encoding {encoding!r} is unknown")
    return int(digits)


def train_dictionary(texts: Sequence[bytes], *, dictionary_bytes: int) -> bytes | None:
    """Train a dictionary on texts; None if they have too little in common."""
    try:
        return zstandard.train_dictionary(dictionary_bytes, list(texts)).as_bytes()
    except zstandard.ZstdError:
        return None


def _decode_gzip(content: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=_GZIP_WBITS)
    try:
        packed = base64.b64decode(content, validate=True)
        data = inflater.decompress(packed, limits.MESSAGE_BYTES_MAX + 1)
    except (binascii.Error, zlib.error, ValueError) as exc:
        raise ContentError("its compressed form is damaged") from exc
    if len(data) > limits.MESSAGE_BYTES_MAX:
        raise ContentError("its compressed form is larger than any message")
    if not inflater.eof:
        raise ContentError("its compressed form is damaged")
    return data


def _refuse_bomb(packed: bytes) -> None:
    """Refuse a frame whose header declares more than any message: that much memory is allocated."""
    if zstandard.frame_content_size(packed) > limits.MESSAGE_BYTES_MAX:
        raise ContentError("its compressed form is larger than any message")

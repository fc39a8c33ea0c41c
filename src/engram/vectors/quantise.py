"""Quantises vectors to the int8 codes that are stored and compared.

A vector becomes one signed byte for each dimension and the scale that gives those bytes unit length.
Integer products are exact, so a cosine has the same bits on every machine, whatever the kernel and
the order in which it adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engram.errors import InvalidVectorError, StoreCorruptError
from engram.vectors.arrays import Bits, Codes, Floats, Scales

CODE_MAX = 127
"""-128 is unused: codes are symmetric, so that the opposite vector has the opposite codes."""

BLOB_VERSION = 1
_SCALE_MAX = np.float32(1 / CODE_MAX)
_SCALE_END = 5
"""A blob is a version byte, four bytes of scale, and a byte for each dimension."""

_WORD_BITS = 64
"""Sign bits are padded to machine words: the most that are counted at once."""


@dataclass(frozen=True, slots=True)
class QuantisedRows:
    """Vectors as int8 codes; a row times its scale has unit length, a sentence's in a message less."""

    codes: Codes
    scales: Scales

    def __len__(self) -> int:
        return len(self.codes)


def quantise(vectors: ArrayLike, *, dimensions: int) -> QuantisedRows:
    """Return vectors as int8 codes, which keep only their direction.

    Raises:
        InvalidVectorError: a vector is zero, not finite, or of the wrong dimensions.
    """
    rows = _validated(vectors, dimensions=dimensions)
    peaks = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    if not ((peaks > 0) & (peaks < np.inf)).all():
        raise InvalidVectorError("a vector is zero or not finite")
    codes = np.rint(rows / peaks * CODE_MAX).astype(np.int8)
    return QuantisedRows(codes=codes, scales=_unit_scales(codes))


def restore(rows: QuantisedRows) -> Floats:
    """Return the unit vectors that rows stand for."""
    return rows.codes * rows.scales[:, np.newaxis]


def pack_blobs(rows: QuantisedRows) -> list[bytes]:
    """Serialize each row to a blob."""
    content = np.empty((len(rows), _SCALE_END + rows.codes.shape[1]), dtype=np.uint8)
    content[:, 0] = BLOB_VERSION
    content[:, 1:_SCALE_END] = rows.scales.astype("<f4").view(np.uint8).reshape(-1, 4)
    content[:, _SCALE_END:] = rows.codes.view(np.uint8)
    return [row.tobytes() for row in content]


def unpack_blobs(blobs: Sequence[bytes], *, dimensions: int) -> QuantisedRows:
    """Parse the rows that `pack_blobs` serialized.

    Raises:
        StoreCorruptError: a blob has the wrong size or version, or no valid scale: one code of a
            row is the largest, so that no scale gives more than unit length.
    """
    size = blob_bytes(dimensions)
    if any(len(blob) != size for blob in blobs):
        raise StoreCorruptError(f"a stored vector does not have {dimensions} dimensions")
    content = np.frombuffer(b"".join(blobs), dtype=np.uint8).reshape(-1, size)
    scales = content[:, 1:_SCALE_END].copy().view("<f4").reshape(-1).astype(np.float32)
    if (content[:, 0] != BLOB_VERSION).any() or not ((scales > 0) & (scales <= _SCALE_MAX)).all():
        raise StoreCorruptError("a stored vector cannot be read")
    return QuantisedRows(codes=content[:, _SCALE_END:].view(np.int8), scales=scales)


def blob_bytes(dimensions: int) -> int:
    """Return the size of a serialized row."""
    return _SCALE_END + dimensions


def sign_bits(codes: Codes) -> Bits:
    """Return one bit for each dimension, set if it is positive, padded to machine words."""
    packed = np.packbits(codes > 0, axis=1)
    words = bit_words(codes.shape[1])
    padded = np.zeros((len(codes), words * _WORD_BITS // 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).reshape(-1, words).T)


def bit_words(dimensions: int) -> int:
    """Return the number of machine words for the sign bits of a vector."""
    return math.ceil(dimensions / _WORD_BITS)


def _validated(vectors: ArrayLike, *, dimensions: int) -> Floats:
    rows = np.asarray(vectors)
    if rows.dtype != np.float32:
        with np.errstate(over="ignore"):  # Overflow becomes infinite, and is refused.
            rows = rows.astype(np.float32)
    if rows.ndim != 2 or rows.shape[1] != dimensions:
        raise InvalidVectorError(
            f"expected rows of {dimensions} dimensions, got shape {rows.shape}"
        )
    return rows


def _unit_scales(codes: Codes) -> Scales:
    wide = codes.astype(np.int32)
    return (1 / np.sqrt(np.vecdot(wide, wide))).astype(np.float32)

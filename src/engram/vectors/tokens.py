"""Token vectors of a text at two bits a dimension, and how well a query's tokens match them.

A dimension of a unit vector becomes one of four levels, the best ones for normally distributed values.
They are integers, and so are a query's codes: like those of whole vectors, products are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engram.errors import InvalidVectorError, StoreCorruptError
from engram.limits import TOKEN_VECTOR_BYTES_MAX
from engram.vectors.arrays import Codes, Cosines, Floats, Rows
from engram.vectors.kernels import Kernels
from engram.vectors.quantise import quantise

TOKEN_DIMENSIONS = 128
TOKEN_VERSION = 1
"""First byte of a blob. It changes with the levels, and with the projection that vectors come from."""

_LEVELS = np.array([-10, -3, 3, 10], dtype=np.int8)
"""Lloyd's levels of a normal distribution are 0.4528 and 1.5104 standard deviations."""
_LEVEL_UNIT = 1.5104 / 10
_BOUNDARIES = np.array([-6.5, 0, 6.5]) * _LEVEL_UNIT / np.sqrt(TOKEN_DIMENSIONS)

_CODES_PER_BYTE = 4
TOKEN_BYTES = TOKEN_DIMENSIONS // _CODES_PER_BYTE
TOKENS_MAX = (TOKEN_VECTOR_BYTES_MAX - 1) // TOKEN_BYTES

_SHIFTS = np.arange(_CODES_PER_BYTE, dtype=np.uint8) * 2
_OF_BYTE = _LEVELS[np.arange(256, dtype=np.uint8)[:, np.newaxis] >> _SHIFTS & 3]
"""The four levels that each byte stands for."""
_QUADS = np.ascontiguousarray(_OF_BYTE).view(np.uint32).reshape(-1)
"""The same as one machine word, which is taken at once."""
_SQUARES = (_OF_BYTE.astype(np.int32) ** 2).sum(axis=1)


def pack_tokens(vectors: Floats) -> bytes:
    """Serialize the unit vectors of a text's tokens.

    Raises:
        InvalidVectorError: there are none, too many, or they have the wrong dimensions.
    """
    if vectors.ndim != 2 or vectors.shape[1] != TOKEN_DIMENSIONS:
        raise InvalidVectorError(f"expected rows of {TOKEN_DIMENSIONS}, got shape {vectors.shape}")
    if not 0 < len(vectors) <= TOKENS_MAX:
        raise InvalidVectorError(f"{len(vectors)} tokens are not 1 to {TOKENS_MAX}")
    codes = np.searchsorted(_BOUNDARIES, vectors).astype(np.uint8)
    quads = codes.reshape(-1, _CODES_PER_BYTE) << _SHIFTS
    return bytes([TOKEN_VERSION]) + np.bitwise_or.reduce(quads, axis=1).tobytes()


def unpack_tokens(blobs: Sequence[bytes]) -> tuple[Codes, Floats, Rows]:
    """Parse what `pack_tokens` serialized: codes and lengths of all tokens, and where each text starts.

    Raises:
        StoreCorruptError: a blob has the wrong size or version.
    """
    for blob in blobs:
        if not are_tokens(blob):
            raise StoreCorruptError("stored token vectors cannot be read")
    packed = np.frombuffer(b"".join(blob[1:] for blob in blobs), dtype=np.uint8)
    codes = _QUADS.take(packed).view(np.int8).reshape(-1, TOKEN_DIMENSIONS)
    squares = _SQUARES.take(packed).reshape(-1, TOKEN_BYTES).sum(axis=1)
    counts = [len(blob) // TOKEN_BYTES for blob in blobs]
    starts = np.cumsum([0, *counts])[: len(blobs)]
    return codes, np.sqrt(squares, dtype=np.float32), starts


def are_tokens(blob: bytes) -> bool:
    """Return True if a blob has the version and a size of token vectors."""
    tokens, rest = divmod(len(blob) - 1, TOKEN_BYTES)
    return blob[:1] == bytes([TOKEN_VERSION]) and not rest and 0 < tokens <= TOKENS_MAX


def best_cosines(query: Floats, blobs: Sequence[bytes], kernels: Kernels) -> Cosines:
    """Return the best cosine among each text's tokens (rows) for each token of a query (columns).

    Raises:
        InvalidVectorError: a vector of the query is zero, not finite, or of the wrong dimensions.
        StoreCorruptError: a blob has the wrong size or version.
    """
    asked = quantise(query, dimensions=TOKEN_DIMENSIONS)
    best = np.empty((len(blobs), len(asked)))
    if not len(blobs):
        return best
    codes, lengths, starts = unpack_tokens(blobs)
    for place, (code, scale) in enumerate(zip(asked.codes, asked.scales.tolist(), strict=True)):
        cosines = kernels.products(code, codes) / lengths * scale
        best[:, place] = np.maximum.reduceat(cosines, starts)
    return best

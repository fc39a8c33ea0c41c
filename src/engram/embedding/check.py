"""Refuses what is no vector before anything is stored or compared.

Works on the arrays it is given without importing NumPy, so that a store may use it freely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.embedding.port import EmbedderIdentity
from engram.errors import EmbedderMismatchError, InvalidVectorError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engram.embedding.port import Vectors

UNIT_TOLERANCE = 1e-3
"""How far the squared length of a float32 row may be from 1."""


def unit_rows(raw: Vectors) -> Vectors:
    """Return the rows scaled to unit length.

    Raises:
        InvalidVectorError: a row is not finite, or is zero and so points nowhere.
    """
    squares = _squared_lengths(raw)
    # Not `squares <= 0`: a row that is not a number compares false with everything.
    if not bool(((squares > 0) & (squares < float("inf"))).all()):
        raise InvalidVectorError("a vector is zero or not finite")
    return (raw / squares[:, None] ** 0.5).astype("float32")


def check_vectors(vectors: Vectors, identity: EmbedderIdentity, *, count: int) -> None:
    """Return if these are `count` unit vectors of `identity`.

    Raises:
        EmbedderMismatchError: their dimensions are others.
        InvalidVectorError: one is missing, or not finite and of unit length.
    """
    if vectors.ndim != 2 or len(vectors) != count:
        raise InvalidVectorError(f"{count:,} vectors were expected, got shape {vectors.shape}")
    if vectors.shape[1] != identity.dimensions:
        raise EmbedderMismatchError(
            f"{identity.name} gives {identity.dimensions} dimensions, got {vectors.shape[1]}: "
            "another model answers; run `engram reembed` to use it"
        )
    if not bool((abs(_squared_lengths(vectors) - 1) < UNIT_TOLERANCE).all()):
        raise InvalidVectorError("a vector is not finite or not of unit length")


def _squared_lengths(rows: Vectors) -> NDArray[np.float64]:
    # Wide enough that no finite row overflows.
    wide: NDArray[np.float64] = rows.astype("float64")
    return (wide * wide).sum(axis=1)

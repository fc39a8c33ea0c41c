"""The arrays that vectors are made of, by their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
"""Vectors as a model gives them."""

Query: TypeAlias = Floats | Sequence[float]
"""One vector to search with."""

Codes: TypeAlias = NDArray[np.int8]
Scales: TypeAlias = NDArray[np.float32]
Bits: TypeAlias = NDArray[np.uint8]

Keys: TypeAlias = NDArray[np.int64]
"""Whose vectors they are: the row ids of messages."""

Rows: TypeAlias = NDArray[np.int64]
"""Places in a matrix."""

Cosines: TypeAlias = NDArray[np.float64]
Distances: TypeAlias = NDArray[np.int16]
Flags: TypeAlias = NDArray[np.bool_]


def clip_cosines(cosines: Cosines) -> Cosines:
    """Bring cosines that rounding put past an end back to -1..1, in place."""
    return np.minimum(np.maximum(cosines, -1.0, out=cosines), 1.0, out=cosines)

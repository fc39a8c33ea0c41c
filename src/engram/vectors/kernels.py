"""The inner loops over many rows: int8 dot products and Hamming distances.

SimSIMD multiplies without holding the GIL. Where it has no wheel, NumPy computes the same numbers,
more slowly. Distances are counted by NumPy, a word of all rows at a time: SimSIMD takes twice as long, for it
calls a function for each row.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from engram.vectors.arrays import Bits, Codes, Cosines, Distances

_NUMPY_ROWS = 4_096
"""Rows that NumPy widens at once: they stay in the processor's cache."""

_FLOAT32_DIMENSIONS_MAX = 2**24 // 127**2
"""Sums of so many int8 products are exact in float32, which is twice as fast as float64."""


class Kernels(Protocol):
    """Exact integer arithmetic: every implementation returns the same numbers."""

    def products(self, query: Codes, rows: Codes) -> Cosines:
        """Return the dot product of the query with each row, an integer."""
        ...

    def products_of_pairs(self, rows: Codes, others: Codes) -> Cosines:
        """Return the dot product of each row with the row of `others` at its index, an integer."""
        ...


class NumpyKernels:
    """The kernels in NumPy."""

    def products(self, query: Codes, rows: Codes) -> Cosines:
        """Multiply a few rows at a time as floats wide enough for exact sums."""
        kind = np.float32 if len(query) <= _FLOAT32_DIMENSIONS_MAX else np.float64
        wide = query.astype(kind)
        out = np.empty(len(rows), dtype=np.float64)
        for start in range(0, len(rows), _NUMPY_ROWS):
            part = slice(start, start + _NUMPY_ROWS)
            out[part] = rows[part].astype(kind) @ wide
        return out

    def products_of_pairs(self, rows: Codes, others: Codes) -> Cosines:
        return np.einsum("ij,ij->i", rows, others, dtype=np.int64).astype(np.float64)


class SimdKernels:
    """The kernels in SimSIMD, which has them for every processor we know.

    Raises:
        ImportError: SimSIMD is not installed.
    """

    def __init__(self) -> None:
        import simsimd  # noqa: PLC0415 may be missing

        self._simsimd = simsimd

    def products(self, query: Codes, rows: Codes) -> Cosines:
        if not len(rows):
            return np.empty(0, dtype=np.float64)
        return _only_row(self._simsimd.cdist(query.reshape(1, -1), rows, "dot"))

    def products_of_pairs(self, rows: Codes, others: Codes) -> Cosines:
        if not len(rows):
            return np.empty(0, dtype=np.float64)
        return np.asarray(self._simsimd.dot(rows, others), dtype=np.float64)


def _only_row(found: object) -> Cosines:
    """Return the only row of a `cdist` result.

    `cdist` is never given an output array: it then returns None without counting the reference, and
    before Python 3.12 the process dies after some thousand searches.
    """
    return np.asarray(found, dtype=np.float64)[0]


def best_kernels() -> Kernels:
    """Return the fastest kernels available on this machine."""
    try:
        return SimdKernels()
    except ImportError:
        return NumpyKernels()


def distances(query: Bits, others: Bits) -> Distances:
    """Return the Hamming distance of one vector's sign bits to those of each other."""
    found = np.zeros(others.shape[1], dtype=np.int16)
    differing = np.empty(others.shape[1], dtype=np.uint64)
    counts = np.empty(others.shape[1], dtype=np.uint8)
    for word, words in zip(query[:, 0], others, strict=True):
        np.bitwise_xor(words, word, out=differing)
        found += np.bitwise_count(differing, out=counts)
    return found

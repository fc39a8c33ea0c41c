"""The loops over many rows: products of bytes, and bits that differ.

SimSIMD runs them without the interpreter's lock. Where it has no wheel NumPy gives the same numbers,
more slowly.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from engram.vectors.arrays import Bits, Codes, Cosines, Distances

_NUMPY_ROWS = 4_096
"""Rows that NumPy widens at once: they stay in the processor's cache."""

_FLOAT32_DIMENSIONS_MAX = 2**24 // 127**2
"""Sums of so many products of bytes are exact in float32, which is twice as fast as float64."""


class Kernels(Protocol):
    """Exact loops; the same numbers whoever computes them."""

    def products(self, query: Codes, rows: Codes) -> Cosines:
        """Return the product of a query with each row, a whole number."""
        ...

    def products_of_pairs(self, rows: Codes, others: Codes) -> Cosines:
        """Return the product of each row with the other in its place, a whole number."""
        ...

    def distances(self, query: Bits, rows: Bits) -> Distances:
        """Return how many bits of a query differ from each row's."""
        ...


class NumpyKernels:
    """The loops in NumPy."""

    def products(self, query: Codes, rows: Codes) -> Cosines:
        """Widen a few rows at a time to floats in which the sums are exact."""
        kind = np.float32 if len(query) <= _FLOAT32_DIMENSIONS_MAX else np.float64
        wide = query.astype(kind)
        out = np.empty(len(rows), dtype=np.float64)
        for start in range(0, len(rows), _NUMPY_ROWS):
            part = slice(start, start + _NUMPY_ROWS)
            out[part] = rows[part].astype(kind) @ wide
        return out

    def products_of_pairs(self, rows: Codes, others: Codes) -> Cosines:
        """Multiply in place of the matrix product, which has no pairs."""
        return np.einsum("ij,ij->i", rows, others, dtype=np.int64).astype(np.float64)

    def distances(self, query: Bits, rows: Bits) -> Distances:
        """Count the ones of the exclusive or, a machine word at a time."""
        words, asked = np.ascontiguousarray(rows).view(np.uint64), query.view(np.uint64)
        return np.bitwise_count(words ^ asked).sum(axis=1, dtype=np.int16)


def best_kernels() -> Kernels:
    """Return the fastest loops that this machine has."""
    try:
        from engram.vectors.simd import SimdKernels  # noqa: PLC0415 it may be absent
    except ImportError:
        return NumpyKernels()
    return SimdKernels()

"""The loops over many rows in SimSIMD, which has them for every processor we know."""

from __future__ import annotations

import numpy as np
import simsimd

from engram.vectors.arrays import Bits, Codes, Cosines, Distances


class SimdKernels:
    """The loops of `Kernels`; the interpreter's lock is released while they run."""

    def products(self, query: Codes, rows: Codes) -> Cosines:
        """Let the processor multiply and add bytes."""
        if not len(rows):
            return np.empty(0, dtype=np.float64)
        return _distances(simsimd.cdist(query.reshape(1, -1), rows, "dot"))

    def products_of_pairs(self, rows: Codes, others: Codes) -> Cosines:
        """Let the processor multiply and add bytes."""
        if not len(rows):
            return np.empty(0, dtype=np.float64)
        return np.asarray(simsimd.dot(rows, others), dtype=np.float64)

    def distances(self, query: Bits, rows: Bits) -> Distances:
        """Let the processor count bits."""
        if not len(rows):
            return np.empty(0, dtype=np.int16)
        found = simsimd.cdist(query.reshape(1, -1), rows, "hamming", dtype="bin8")
        return _distances(found).astype(np.int16)


def _distances(found: object) -> Cosines:
    """Return the one row of a result.

    Given an array to write to, `cdist` returns None without counting the reference: before Python
    3.12 the process dies after some thousand searches. So it makes its own.
    """
    return np.asarray(found, dtype=np.float64)[0]

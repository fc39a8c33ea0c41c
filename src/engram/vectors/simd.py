"""The loops over many rows in SimSIMD, which has them for every processor we know."""

from __future__ import annotations

import numpy as np
import simsimd

from engram.vectors.arrays import Bits, Codes, Cosines, Distances


class SimdKernels:
    """The loops of `Kernels`; the interpreter's lock is released while they run."""

    def products(self, query: Codes, rows: Codes) -> Cosines:
        """Let the processor multiply and add bytes."""
        out = np.empty((1, len(rows)), dtype=np.float64)
        if len(rows):
            simsimd.cdist(query.reshape(1, -1), rows, "dot", out=out)
        return out[0]

    def products_of_pairs(self, rows: Codes, others: Codes) -> Cosines:
        """Let the processor multiply and add bytes."""
        if not len(rows):
            return np.empty(0, dtype=np.float64)
        return np.asarray(simsimd.dot(rows, others), dtype=np.float64)

    def distances(self, query: Bits, rows: Bits) -> Distances:
        """Let the processor count bits."""
        out = np.empty((1, len(rows)), dtype=np.float64)
        if len(rows):
            simsimd.cdist(query.reshape(1, -1), rows, "hamming", dtype="bin8", out=out)
        return out[0].astype(np.int16)

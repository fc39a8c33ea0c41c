"""Kernels do not leak references."""

from __future__ import annotations

import sys

import numpy as np

from engram.vectors.kernels import best_kernels

CALLS = 200


def test_kernels_leak_no_references() -> None:
    kernels, rows = best_kernels(), np.ones((4, 64), dtype=np.int8)
    before = sys.getrefcount(None)

    for _ in range(CALLS):
        kernels.products(rows[0], rows)
        kernels.products_of_pairs(rows, rows)

    assert abs(sys.getrefcount(None) - before) < CALLS

"""Finds the rows of a key.

Sorted runs of keys, each at least twice as long as the next: a row is added to a matrix of a
million without sorting a million keys, and a look-up asks few runs. Never changed, only replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram.vectors.arrays import Keys, Rows


@dataclass(frozen=True, slots=True)
class _Run:
    keys: Keys
    rows: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Owners:
    """Which rows belong to which key, removed rows included."""

    runs: tuple[_Run, ...] = ()

    @property
    def bytes(self) -> int:
        """Return the memory of the runs."""
        return sum(run.keys.nbytes + run.rows.nbytes for run in self.runs)

    def with_rows(self, keys: Keys, *, first: int) -> Owners:
        """Return these owners and those of new rows, which are numbered from `first`."""
        added = _sorted_run(keys, np.arange(first, first + len(keys), dtype=np.int32))
        runs = [*self.runs]
        while runs and len(runs[-1].keys) < 2 * len(added.keys):
            added = _merged(runs.pop(), added)
        return Owners((*runs, added))

    def rows_between(self, firsts: Keys, lasts: Keys) -> tuple[Rows, Rows]:
        """Return the rows whose key is in a range, both ends included, and the range of each."""
        found = [_between(run, firsts, lasts) for run in self.runs]
        if not found:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        rows, ranges = zip(*found, strict=True)
        return np.concatenate(rows).astype(np.int64), np.concatenate(ranges)


def _sorted_run(keys: Keys, rows: NDArray[np.int32]) -> _Run:
    order = np.argsort(keys, kind="stable")
    return _Run(keys=keys[order], rows=rows[order])


def _merged(older: _Run, newer: _Run) -> _Run:
    # The stable sort notices the two sorted halves and only merges them.
    return _sorted_run(
        np.concatenate((older.keys, newer.keys)), np.concatenate((older.rows, newer.rows))
    )


def _between(run: _Run, firsts: Keys, lasts: Keys) -> tuple[NDArray[np.int32], Rows]:
    starts = run.keys.searchsorted(firsts, side="left")
    counts = np.maximum(run.keys.searchsorted(lasts, side="right") - starts, 0)
    if counts.max(initial=0) <= 1:
        ranges = counts.nonzero()[0]
        return run.rows.take(starts.take(ranges)), ranges
    ranges = np.arange(len(firsts)).repeat(counts)
    within = np.arange(len(ranges)) - (counts.cumsum() - counts).repeat(counts)
    return run.rows.take(starts.repeat(counts) + within), ranges

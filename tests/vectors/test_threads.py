"""Readers see all of a change or nothing of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from engram.vectors import blocks, matrix
from engram.vectors.matrix import VectorMatrix
from engram.vectors.quantise import quantise
from tests.vectors.made import DIMENSIONS, unit_vectors

BATCH = 7
ROUNDS = 200


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    monkeypatch.setattr(matrix, "COMPACTED_MIN", 20)


def test_searches_see_whole_additions_while_a_writer_adds_and_removes():
    """Batches are replaced one at a time, so every snapshot has whole batches and at least one."""
    shared = VectorMatrix(DIMENSIONS)
    vectors = unit_vectors(1, BATCH)
    rows = quantise(vectors, dimensions=DIMENSIONS)
    shared.add(np.arange(BATCH), rows)
    done = Event()

    def write() -> None:
        try:
            for number in range(ROUNDS):
                old, new = (np.arange(BATCH) + (number + step) * BATCH for step in (0, 1))
                shared.change(removed=old, keys=new, rows=rows)
        finally:
            done.set()

    def read() -> int:
        searches = 0
        while not (done.is_set() and searches):
            found, cosines = shared.search(vectors[0], 3 * BATCH)
            assert BATCH == len(found)
            assert 1 == len(set((found // BATCH).tolist()))
            np.testing.assert_array_equal(0, found[0] % BATCH)
            assert cosines[0] == pytest.approx(1)
            searches += 1
        return searches

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        pool.submit(write).result(timeout=60)

        assert all(reader.result(timeout=60) > 0 for reader in readers)
    assert BATCH == len(shared)


def test_a_snapshot_stays_as_it_was():
    shared = VectorMatrix(DIMENSIONS)
    vectors = unit_vectors(1, 200)
    rows = quantise(vectors, dimensions=DIMENSIONS)
    shared.add(np.arange(200), rows)
    moment = shared.snapshot
    before = moment.search(vectors[0], 200)

    shared.remove(np.arange(0, 200, 2))
    shared.add(np.arange(200), rows)
    shared.remove(np.arange(200))

    np.testing.assert_array_equal(before, moment.search(vectors[0], 200))
    assert 0 == len(shared)


def test_no_addition_of_concurrent_threads_is_lost():
    shared = VectorMatrix(DIMENSIONS)
    rows = quantise(unit_vectors(1, BATCH), dimensions=DIMENSIONS)

    def add(number: int) -> None:
        shared.add(np.arange(BATCH) + number * BATCH, rows)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(ROUNDS)))

    found, _ = shared.search(unit_vectors(1, 1)[0], 2 * BATCH * ROUNDS)
    assert [*range(BATCH * ROUNDS)] == sorted(found.tolist())

"""Cached matrices follow their sources and stay within the memory budget."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engram.errors import StoreCorruptError
from engram.vectors.matrix_cache import MatrixCache, VectorChanges
from engram.vectors.quantise import pack_blobs, quantise
from engram.vectors.snapshot import VectorSnapshot
from tests.promises import promise
from tests.vectors.made import DIMENSIONS, unit_vectors

AMPLE = 1 << 30


@dataclass
class StoredVectors:
    """A vector store with a log of removals, like that of an organisation's database."""

    dimensions: int = DIMENSIONS
    page: int = 1_000
    seq: int = 0
    rows: list[tuple[int, int, bytes]] = field(default_factory=list[tuple[int, int, bytes]])
    removals: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    forgotten: int = 0
    reads: int = 0

    def put(self, key: int, *, seed: int) -> None:
        self.seq += 1
        blob = pack_blobs(quantise(unit_vectors(seed, 1), dimensions=DIMENSIONS))[0]
        self.rows.append((self.seq, key, blob))

    def remove(self, key: int) -> None:
        self.seq += 1
        self.rows = [row for row in self.rows if row[1] != key]
        self.removals.append((self.seq, key))

    def forget_removals(self) -> None:
        self.removals.clear()
        self.forgotten = self.seq

    def read_since(self, seq: int) -> VectorChanges:
        self.reads += 1
        newest = min(seq + self.page, self.seq)
        rows = [row for row in self.rows if seq < row[0] <= newest]
        return VectorChanges(
            removed=[key for at, key in self.removals if seq < at <= newest],
            keys=[key for _, key, _ in rows],
            blobs=[blob for _, _, blob in rows],
            seq=newest,
            newest=self.seq,
            forgotten=self.forgotten,
        )

    @property
    def keys(self) -> set[int]:
        return {key for _, key, _ in self.rows}


def filled(keys: Sequence[int]) -> StoredVectors:
    source = StoredVectors()
    for key in keys:
        source.put(key, seed=key)
    return source


def keys_in(snapshot: VectorSnapshot) -> set[int]:
    found, _ = snapshot.search(unit_vectors(1, 1)[0], 10_000)
    return set(found.tolist())


@promise("findable")
def test_each_search_sees_what_was_stored_before_it():
    source = filled([1, 2])
    matrices = MatrixCache(bytes_max=AMPLE)
    assert {1, 2} == keys_in(matrices.current("a", source))

    source.put(9, seed=9)
    source.remove(1)

    assert {2, 9} == keys_in(matrices.current("a", source))


def test_keys_may_arrive_in_any_order_and_in_parts():
    source = filled([70, 3, 70, 41, 3, 8])
    matrices = MatrixCache(bytes_max=AMPLE)

    snapshot = matrices.current("a", source)

    assert {3, 8, 41, 70} == keys_in(snapshot)
    assert 6 == snapshot.rows_live


def test_a_replaced_vector_counts_once():
    source = filled([5])
    matrices = MatrixCache(bytes_max=AMPLE)
    matrices.current("a", source)

    source.remove(5)
    source.put(5, seed=77)

    snapshot = matrices.current("a", source)
    assert 1 == snapshot.rows_live
    alone, _ = snapshot.compare_messages(unit_vectors(77, 1)[0], np.array([5]))
    assert alone == pytest.approx(1)


def test_long_histories_are_read_in_pages():
    source = filled(range(25))
    source.page = 10

    snapshot = MatrixCache(bytes_max=AMPLE).current("a", source)

    assert set(range(25)) == keys_in(snapshot)
    assert 3 == source.reads


def test_a_reader_that_missed_removals_reads_everything_again():
    source = filled([1, 2, 3])
    matrices = MatrixCache(bytes_max=AMPLE)
    matrices.current("a", source)

    source.remove(2)
    source.forget_removals()
    source.put(4, seed=4)

    assert {1, 3, 4} == keys_in(matrices.current("a", source))


def test_a_removal_pruned_between_two_pages_is_detected():
    source = filled(range(20))
    source.page = 10
    read_since = source.read_since

    def read_then_remove(seq: int) -> VectorChanges:
        changes = read_since(seq)
        if source.reads == 1:
            source.remove(5)
            source.forget_removals()
        return changes

    source.read_since = read_then_remove

    snapshot = MatrixCache(bytes_max=AMPLE).current("a", source)

    assert set(range(20)) - {5} == keys_in(snapshot)


@promise("findable")
def test_two_processes_see_the_same():
    source = filled([1, 2])
    here, there = MatrixCache(bytes_max=AMPLE), MatrixCache(bytes_max=AMPLE)
    here.current("a", source)

    source.remove(2)
    there.current("a", source)
    source.put(3, seed=3)

    assert {1, 3} == keys_in(here.current("a", source)) == keys_in(there.current("a", source))


def test_two_threads_apply_a_change_once():
    source = filled(range(50))
    matrices = MatrixCache(bytes_max=AMPLE)
    together = Barrier(4)

    def ask(_: int) -> int:
        together.wait(timeout=60)
        return matrices.current("a", source).rows_live

    with ThreadPoolExecutor(4) as pool:
        assert [50] * 4 == list(pool.map(ask, range(4)))


def test_names_do_not_share_vectors():
    matrices = MatrixCache(bytes_max=AMPLE)
    one, other = filled([1, 2]), filled([8, 9])

    assert {1, 2} == keys_in(matrices.current("a", one))
    assert {8, 9} == keys_in(matrices.current("b", other))
    assert {1, 2} == keys_in(matrices.current("a", one))


def test_the_least_recently_used_matrix_is_evicted_and_read_again():
    sources = {name: filled(range(10)) for name in "abc"}
    one = MatrixCache(bytes_max=AMPLE)
    one.current("a", filled(range(10)))
    matrices = MatrixCache(bytes_max=2 * one.bytes)

    for name in "abac":
        matrices.current(name, sources[name])

    assert 2 == len(matrices)
    reads = {name: source.reads for name, source in sources.items()}
    matrices.current("a", sources["a"])
    assert reads["a"] + 1 == sources["a"].reads
    sources["b"].remove(3)
    assert set(range(10)) - {3} == keys_in(matrices.current("b", sources["b"]))
    assert 2 == len(matrices)


def test_a_matrix_over_the_budget_is_still_searched():
    matrices = MatrixCache(bytes_max=1)
    large, other = filled(range(10)), filled([77])

    assert set(range(10)) == keys_in(matrices.current("a", large))
    assert {77} == keys_in(matrices.current("b", other))
    assert set(range(10)) == keys_in(matrices.current("a", large))


def test_a_snapshot_in_use_outlives_its_eviction():
    matrices = MatrixCache(bytes_max=1)
    kept = matrices.current("a", filled([1, 2]))

    matrices.current("b", filled([3]))

    assert {1, 2} == keys_in(kept)


def test_a_forgotten_matrix_uses_no_memory():
    matrices = MatrixCache(bytes_max=AMPLE)
    matrices.current("a", filled([1]))

    matrices.forget("a")
    matrices.forget("never held")

    assert 0 == matrices.bytes


def test_a_damaged_row_is_an_error_every_time_and_hides_nothing_once_repaired():
    source = filled([1, 2])
    seq, key, blob = source.rows[1]
    matrices = MatrixCache(bytes_max=AMPLE)

    source.rows[1] = (seq, key, blob[:-1])
    for _ in range(2):
        with pytest.raises(StoreCorruptError):
            matrices.current("a", source)

    source.rows[1] = (seq, key, blob)
    assert {1, 2} == keys_in(matrices.current("a", source))


class Readers(RuleBasedStateMachine):
    """Whatever is stored, removed, pruned and evicted, every reader sees the current store."""

    def __init__(self) -> None:
        super().__init__()
        self.sources = {name: StoredVectors(page=3) for name in "ab"}
        self.readers = [MatrixCache(bytes_max=AMPLE), MatrixCache(bytes_max=1)]

    names = st.sampled_from("ab")
    keys = st.integers(0, 12)

    @rule(name=names, key=keys, seed=st.integers(0, 99))
    def put(self, name: str, key: int, seed: int) -> None:
        self.sources[name].put(key, seed=seed)

    @rule(name=names, key=keys)
    def remove(self, name: str, key: int) -> None:
        self.sources[name].remove(key)

    @rule(name=names)
    def forget_removals(self, name: str) -> None:
        self.sources[name].forget_removals()

    @rule(name=names, reader=st.integers(0, 1))
    def search(self, name: str, reader: int) -> None:
        source = self.sources[name]
        snapshot = self.readers[reader].current(name, source)
        assert source.keys == keys_in(snapshot)
        assert len(source.rows) == snapshot.rows_live

    @invariant()
    def the_small_budget_holds_one_at_most(self) -> None:
        assert len(self.readers[1]) <= 1


TestReaders = Readers.TestCase


def test_numpy_is_imported_with_the_first_vector_only():
    code = (
        "import sys, engram.vectors.matrix_cache as budgeted\n"
        "budgeted.MatrixCache(bytes_max=1)\n"
        "assert not {'numpy', 'simsimd'} & set(sys.modules)\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)

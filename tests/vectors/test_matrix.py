"""A matrix finds the nearest keys, whatever was added, removed or filtered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidVectorError
from engram.model.row_keys import SEQUENCE_BITS
from engram.vectors import blocks, matrix, snapshot
from engram.vectors.arrays import Keys
from engram.vectors.matrix import VectorMatrix
from engram.vectors.quantise import quantise
from engram.vectors.snapshot import KeyRanges
from tests.promises import promise
from tests.vectors.made import (
    DIMENSIONS,
    all_answers,
    best_cosines,
    clustered_vectors,
    error_bound,
    matrix_of,
    message_keys,
    unit_vectors,
)

SEEDS = st.integers(0, 2**32 - 1)
KEYS = st.lists(message_keys(3, 8), max_size=60)
SMALL = pytest.mark.usefixtures("small")
BOTH_PATHS = pytest.mark.usefixtures("small", "path")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrink blocks and the compaction threshold so that a few rows reach them."""
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 16)
    monkeypatch.setattr(matrix, "COMPACTED_MIN", 5)


@pytest.fixture(params=["bytes", "bits"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search by full scan, or by preselection wide enough to be exact."""
    if request.param == "bits":
        monkeypatch.setattr(snapshot, "SCAN_ROWS_MAX", 0)


def as_keys(keys: list[int]) -> Keys:
    return np.array(keys, dtype=np.int64)


@BOTH_PATHS
@given(keys=KEYS, seed=SEEDS, k=st.integers(1, 70))
def test_search_finds_what_float_arithmetic_finds(keys: list[int], seed: int, k: int):
    vectors = unit_vectors(seed, len(keys) + 1)
    query, rows = vectors[0], vectors[1:]

    found, cosines = matrix_of(as_keys(keys), rows).search(query, k)

    exact = best_cosines(query, as_keys(keys), rows)
    error = 2 * error_bound(vectors)
    assert min(k, len(exact)) == len(found) == len(set(found.tolist()))
    assert [*cosines] == sorted(cosines, reverse=True)
    for key, cosine, ideal in zip(
        found, cosines, sorted(exact.values(), reverse=True), strict=False
    ):
        assert abs(exact[int(key)] - cosine) <= error
        assert abs(ideal - cosine) <= error


@BOTH_PATHS
@given(keys=KEYS, allowed=st.sets(message_keys(4, 8)), seed=SEEDS, k=st.integers(1, 20))
def test_filtered_search_equals_search_over_the_allowed_keys_only(
    keys: list[int], allowed: set[int], seed: int, k: int
):
    vectors = unit_vectors(seed, len(keys) + 1)
    query, rows = vectors[0], vectors[1:]
    inside = np.isin(as_keys(keys), as_keys(sorted(allowed)))

    found = matrix_of(as_keys(keys), rows).search(query, k, allowed=as_keys(sorted(allowed)))

    alone = matrix_of(as_keys(keys)[inside], rows[inside]).search(query, k)
    np.testing.assert_array_equal(alone, found)


def test_allowed_keys_may_come_in_any_order_and_twice():
    vectors = unit_vectors(1, 9)
    filled = matrix_of(np.arange(9), vectors)

    found = filled.search(vectors[0], 9, allowed=as_keys([7, 2, 7, 100, 0]))

    np.testing.assert_array_equal(filled.search(vectors[0], 9, allowed=as_keys([0, 2, 7])), found)
    assert {0, 2, 7} == set(found[0].tolist())


@SMALL
@given(keys=KEYS, seed=SEEDS, conversation=st.integers(0, 3))
def test_a_range_allows_a_whole_conversation(keys: list[int], seed: int, conversation: int):
    vectors = unit_vectors(seed, len(keys) + 1)
    first = conversation << SEQUENCE_BITS
    whole = KeyRanges(as_keys([first]), as_keys([first + (1 << SEQUENCE_BITS) - 1]))

    found, _ = matrix_of(as_keys(keys), vectors[1:]).search(vectors[0], 100, allowed=whole)

    assert {key for key in keys if key >> SEQUENCE_BITS == conversation} == set(found.tolist())


@BOTH_PATHS
@given(keys=KEYS, removed=st.sets(message_keys(3, 8)), seed=SEEDS)
def test_removed_keys_are_never_found(keys: list[int], removed: set[int], seed: int):
    vectors = unit_vectors(seed, len(keys) + 1)
    query, rows = vectors[0], vectors[1:]
    asked = as_keys(sorted({*keys, *removed}))
    stays = ~np.isin(as_keys(keys), as_keys(sorted(removed)))
    emptied = matrix_of(as_keys(keys), rows)

    emptied.remove(as_keys(sorted(removed)))

    never = matrix_of(as_keys(keys)[stays], rows[stays])
    assert len(never) == len(emptied)
    np.testing.assert_array_equal(
        all_answers(never, query, asked), all_answers(emptied, query, asked)
    )


@promise("reproducible")
@BOTH_PATHS
@given(data=st.data(), keys=KEYS, seed=SEEDS)
def test_any_order_and_size_of_additions_gives_equal_answers(
    data: st.DataObject, keys: list[int], seed: int
):
    vectors = unit_vectors(seed, len(keys) + 1)
    query, rows = vectors[0], quantise(vectors[1:], dimensions=DIMENSIONS)
    order = np.array(data.draw(st.permutations(range(len(keys)))), dtype=np.intp)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(keys)), max_size=5)))
    asked = as_keys(sorted(set(keys)))
    at_once, shuffled = VectorMatrix(DIMENSIONS), VectorMatrix(DIMENSIONS)

    at_once.add(as_keys(keys), rows)
    for part in np.split(order, cuts):
        picked = type(rows)(codes=rows.codes[part], scales=rows.scales[part])
        shuffled.add(as_keys(keys)[part], picked)

    np.testing.assert_array_equal(
        all_answers(at_once, query, asked), all_answers(shuffled, query, asked)
    )
    np.testing.assert_array_equal(at_once.search(query, 9), shuffled.search(query, 9))


@SMALL
@given(keys=KEYS, seed=SEEDS)
def test_candidates_are_scored_as_search_scores_them(keys: list[int], seed: int):
    vectors = unit_vectors(seed, len(keys) + 1)
    filled = matrix_of(as_keys(keys), vectors[1:])

    found, cosines = filled.search(vectors[0], 100)

    np.testing.assert_array_equal(cosines, filled.compare_messages(vectors[0], found).alone)
    absent = as_keys([9 << SEQUENCE_BITS])
    assert np.isnan(filled.compare_messages(vectors[0], absent).alone).all()


@SMALL
@given(keys=st.sets(message_keys(3, 8), min_size=1), seed=SEEDS)
def test_a_neighbourhood_is_the_sum_of_five_messages_of_a_conversation(keys: set[int], seed: int):
    vectors = unit_vectors(seed, len(keys) + 1).astype(np.float64)
    by_key = dict(zip(sorted(keys), vectors[1:], strict=True))
    filled = matrix_of(as_keys(sorted(keys)), vectors[1:].astype(np.float32))

    cosines = filled.compare_messages(vectors[0], as_keys(sorted(keys))).together

    for key, cosine in zip(sorted(keys), cosines, strict=True):
        around = [
            by_key[other]
            for other in range(key - 2, key + 3)
            if other in by_key and other >> SEQUENCE_BITS == key >> SEQUENCE_BITS
        ]
        total = np.sum(around, axis=0)
        length = np.linalg.norm(total)
        # The shorter a sum is, the more the rounding of its parts can turn it.
        error = error_bound(vectors.astype(np.float32)) * (1 + 2 * len(around) / length)
        assert abs(total @ vectors[0] / length - cosine) <= error


def test_a_message_without_vectors_has_no_neighbourhood():
    vectors = unit_vectors(1, 2)
    filled = matrix_of(as_keys([10, 11]), vectors)

    alone, together = filled.compare_messages(vectors[0], as_keys([8, 10, 14]))

    assert np.isnan([alone, together]).tolist() == [[True, False, True]] * 2


def test_a_neighbourhood_ends_with_its_conversation():
    vectors = unit_vectors(1, 2)
    border = as_keys([(1 << SEQUENCE_BITS) - 1, 1 << SEQUENCE_BITS])
    filled = matrix_of(border, vectors)

    for query in vectors:
        alone, together = filled.compare_messages(query, border)
        assert together == pytest.approx(alone)


def test_passages_of_a_message_weigh_as_much_as_one_vector():
    one, other = np.eye(DIMENSIONS, dtype=np.float32)[:2]
    once = matrix_of(as_keys([1, 2]), np.stack([one, other]))
    often = matrix_of(as_keys([1, 2, 2, 2]), np.stack([one, other, other, other]))

    expected = once.compare_messages(one, as_keys([1])).together

    assert expected == pytest.approx([np.sqrt(0.5)])
    np.testing.assert_array_equal(expected, often.compare_messages(one, as_keys([1])).together)


@SMALL
@given(keys=st.lists(message_keys(2, 6), min_size=1, max_size=40), seed=SEEDS)
def test_a_message_of_several_passages_has_the_direction_of_their_sum(keys: list[int], seed: int):
    vectors = unit_vectors(seed, len(keys) + 1).astype(np.float64)
    filled = matrix_of(as_keys(keys), vectors[1:].astype(np.float32))
    ordered = sorted(set(keys))
    sums = {key: vectors[1:][np.array(keys) == key].sum(axis=0) for key in ordered}

    cosines = filled.compare_messages(vectors[0], as_keys(ordered)).together

    for key, cosine in zip(ordered, cosines, strict=True):
        around = [
            sums[other]
            for other in range(key - 2, key + 3)
            if other in sums and other >> SEQUENCE_BITS == key >> SEQUENCE_BITS
        ]
        units = [each / np.linalg.norm(each) for each in around]
        total = np.sum(units, axis=0)
        shortest = min(np.linalg.norm(total), *(np.linalg.norm(each) for each in around), 1)
        error = error_bound(vectors.astype(np.float32)) * (1 + 2 * len(keys) / shortest)
        assert abs(total @ vectors[0] / np.linalg.norm(total) - cosine) <= error


def test_vectors_that_cancel_out_have_no_neighbourhood():
    one = unit_vectors(1, 1)
    passages = matrix_of(as_keys([1, 1]), np.concatenate([one, -one]))
    messages = matrix_of(as_keys([1, 2]), np.concatenate([one, -one]))

    assert np.isnan(passages.compare_messages(one[0], as_keys([1])).together).all()
    assert np.isnan(messages.compare_messages(one[0], as_keys([1])).together).all()


@SMALL
@given(
    steps=st.lists(
        st.tuples(
            st.lists(message_keys(2, 7), max_size=3), st.lists(message_keys(2, 7), max_size=6)
        ),
        max_size=12,
    ),
    seed=SEEDS,
)
def test_earlier_queries_do_not_change_a_neighbourhood(
    steps: list[tuple[list[int], list[int]]], seed: int
):
    vectors = unit_vectors(seed, sum(len(added) for _, added in steps) + 1)
    query, rest = vectors[0], vectors[1:]
    everyone = np.array([c << SEQUENCE_BITS | s for c in (0, 1) for s in range(9)])
    asked, silent = VectorMatrix(DIMENSIONS), VectorMatrix(DIMENSIONS)

    for removed, added in steps:
        rows, rest = quantise(rest[: len(added)], dimensions=DIMENSIONS), rest[len(added) :]
        asked.change(removed=removed, keys=added, rows=rows)
        silent.change(removed=removed, keys=added, rows=rows)
        asked.compare_messages(query, everyone)

    np.testing.assert_array_equal(
        asked.compare_messages(query, everyone), silent.compare_messages(query, everyone)
    )


@promise("reproducible")
@BOTH_PATHS
def test_ties_are_broken_by_key():
    keys = np.arange(200)[::-1] * 3
    same = np.repeat(unit_vectors(1, 1), len(keys), axis=0)

    found, cosines = matrix_of(keys, same).search(same[0], 150)

    assert [*range(0, 450, 3)] == found.tolist()
    assert 1 == len(set(cosines.tolist()))


@SMALL
def test_a_key_with_very_many_rows_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch):
    for name, value in (("SCAN_ROWS_MAX", 0), ("RESCORED_MIN", 1), ("RESCORED_PER_RESULT", 1)):
        monkeypatch.setattr(snapshot, name, value)
    vectors = unit_vectors(1, 50)
    crowd = np.repeat(vectors[:1], 500, axis=0)
    filled = matrix_of(
        np.append(np.zeros(500, np.int64), np.arange(50)), np.append(crowd, vectors, 0)
    )

    found, _ = filled.search(vectors[0], 50)

    assert 0 == found[0]
    assert set(range(50)) == set(found.tolist())


@pytest.mark.parametrize("share", [1, 3, 20])
def test_sign_bits_preselect_nearly_all_of_the_top_ten(share: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(snapshot, "SCAN_ROWS_MAX", 1_000)
    dimensions, count = 384, 40_000
    vectors = clustered_vectors(5, count + 40, dimensions=dimensions, clusters=200, spread=1.5)
    queries, rows = vectors[:40], vectors[40:]
    filled = matrix_of(np.arange(count), rows)
    allowed = None if share == 1 else np.arange(0, count, share)
    exact = matrix_of(np.arange(count), rows)

    hits = 0
    for query in queries:
        found, _ = filled.search(query, 10, allowed=allowed)
        every = np.arange(count) if allowed is None else allowed
        ideal = every[np.lexsort((every, -exact.compare_messages(query, every).alone))[:10]]
        hits += len({*found.tolist()} & {*ideal.tolist()})

    assert hits / (10 * len(queries)) >= 0.98


@promise("reproducible")
def test_the_same_query_has_the_same_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(snapshot, "SCAN_ROWS_MAX", 1_000)
    vectors = clustered_vectors(6, 30_001, dimensions=64, clusters=50, spread=1.0)
    filled = matrix_of(np.arange(30_000), vectors[1:])

    first, again = filled.search(vectors[0], 50), filled.search(vectors[0], 50)

    np.testing.assert_array_equal(first, again)


def test_many_dead_rows_trigger_compaction():
    filled = matrix_of(np.arange(40_000), unit_vectors(1, 40_000))
    before = filled.bytes

    filled.remove(np.arange(0, 40_000, 2))

    assert 20_000 == len(filled) == filled.snapshot.blocks.count
    assert filled.bytes < before
    assert [1] == filled.search(unit_vectors(1, 2)[1], 1)[0].tolist()


def test_many_small_additions_leave_few_runs():
    filled, row = VectorMatrix(DIMENSIONS), quantise(unit_vectors(1, 1), dimensions=DIMENSIONS)

    for key in range(1_000):
        filled.add(as_keys([key]), row)

    assert len(filled.snapshot.index.runs) <= 10


def test_memory_is_a_few_bytes_more_than_codes_and_bits():
    filled = matrix_of(np.arange(2**16), unit_vectors(1, 2**16, dimensions=64))

    assert 64 + 8 < filled.bytes / 2**16 < 64 + 8 + 30


def test_an_empty_matrix_finds_nothing():
    empty = VectorMatrix(DIMENSIONS)
    query = unit_vectors(1, 1)[0]

    assert (0, 0) == tuple(map(len, empty.search(query, 5)))
    assert (0, 0) == tuple(map(len, empty.search(query, 5, allowed=as_keys([1]))))
    assert np.isnan(empty.compare_messages(query, as_keys([1]))).all()
    assert (0, 0) == tuple(map(len, empty.compare_messages(query, as_keys([]))))


@pytest.mark.parametrize(
    "bad", [[0.0] * DIMENSIONS, [1.0], [np.nan] * DIMENSIONS, [[1.0] * DIMENSIONS]]
)
def test_an_invalid_query_is_refused(bad: list[float]):
    filled = matrix_of(as_keys([1]), unit_vectors(1, 1))

    for question in (
        lambda: filled.search(bad, 1),
        lambda: filled.compare_messages(bad, as_keys([1])),
    ):
        with pytest.raises(InvalidVectorError):
            question()


def test_a_search_for_no_results_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        VectorMatrix(DIMENSIONS).search(unit_vectors(1, 1)[0], 0)


def test_rows_of_the_wrong_shape_change_nothing():
    filled = matrix_of(as_keys([1]), unit_vectors(1, 1))

    with pytest.raises(InvalidVectorError):
        filled.add(as_keys([2, 3]), quantise(unit_vectors(1, 1), dimensions=DIMENSIONS))
    with pytest.raises(InvalidVectorError):
        filled.add(as_keys([2]), quantise(unit_vectors(1, 1, dimensions=8), dimensions=8))

    assert 1 == len(filled)

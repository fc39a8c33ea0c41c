"""All kernels return the same integers, and distances those of a count."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.vectors.kernels import NumpyKernels, SimdKernels, best_kernels, distances
from engram.vectors.quantise import sign_bits
from tests.vectors.made import all_answers, matrix_of, unit_vectors


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.sampled_from([0, 1, 2, 63, 5_000]),
    dimensions=st.sampled_from([8, 24, 384, 1_536]),
)
def test_kernels_agree_to_the_last_bit(seed: int, count: int, dimensions: int):
    random = np.random.default_rng(seed)
    codes = random.integers(-127, 128, (count + 1, dimensions), dtype=np.int8)
    simd, plain = SimdKernels(), NumpyKernels()

    np.testing.assert_array_equal(
        simd.products(codes[0], codes[1:]), plain.products(codes[0], codes[1:])
    )
    np.testing.assert_array_equal(
        simd.products_of_pairs(codes[1:], codes[:-1]),
        plain.products_of_pairs(codes[1:], codes[:-1]),
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.sampled_from([0, 1, 2, 63, 5_000]),
    dimensions=st.sampled_from([1, 8, 64, 384, 1_536]),
)
def test_distances_count_the_dimensions_of_other_sign(seed: int, count: int, dimensions: int):
    codes = np.random.default_rng(seed).integers(-1, 2, (count + 1, dimensions), dtype=np.int8)

    found = distances(sign_bits(codes[:1]), sign_bits(codes[1:]))

    differing = ((codes[:1] > 0) != (codes[1:] > 0)).sum(axis=1)
    np.testing.assert_array_equal(differing, found)


@pytest.mark.parametrize("extreme", [-127, 127])
def test_products_of_extremes_do_not_overflow(extreme: int):
    row = np.full((1, 1_536), 127, dtype=np.int8)
    other = np.full(1_536, extreme, dtype=np.int8)

    for kernels in (SimdKernels(), NumpyKernels()):
        assert [127 * extreme * 1_536] == kernels.products(other, row).tolist()


def test_numpy_is_the_fallback_without_simsimd(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "simsimd", None)

    assert isinstance(best_kernels(), NumpyKernels)


def test_matrices_of_both_kernels_answer_alike():
    keys, vectors = np.arange(300) // 2, unit_vectors(4, 300)
    simd = matrix_of(keys, vectors, kernels=SimdKernels())
    plain = matrix_of(keys, vectors, kernels=NumpyKernels())

    np.testing.assert_array_equal(
        all_answers(simd, vectors[7], keys), all_answers(plain, vectors[7], keys)
    )


def test_another_thread_runs_while_a_kernel_does():
    rows = np.ones((2_000, 384), dtype=np.int8)
    turns, stop = [0], Event()

    def count() -> None:
        while not stop.is_set():
            turns[0] += 1

    def is_passed_by() -> bool:
        before = turns[0]
        SimdKernels().products(rows[0], rows)
        return turns[0] > before

    with ThreadPoolExecutor(1) as pool:
        pool.submit(count)
        passed = any(is_passed_by() for _ in range(10_000))
        stop.set()

    assert passed

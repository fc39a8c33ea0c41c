"""Quantisation to codes and sign bits preserves the direction of vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidVectorError, StoreCorruptError
from engram.vectors.quantise import (
    CODE_MAX,
    bit_words,
    pack_blobs,
    quantise,
    restore,
    sign_bits,
    unpack_blobs,
)
from tests.vectors.made import DIMENSIONS, error_bound, unit_vectors

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, dimensions=st.integers(1, 400), length=st.floats(1e-3, 1e3))
def test_quantised_cosines_are_within_the_rounding_error(seed: int, dimensions: int, length: float):
    vectors = unit_vectors(seed, 8, dimensions=dimensions)

    restored = restore(quantise(vectors * np.float32(length), dimensions=dimensions))

    np.testing.assert_allclose(np.linalg.norm(restored, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(
        restored @ restored.T, vectors @ vectors.T, atol=2 * error_bound(vectors)
    )


@given(seed=SEEDS, count=st.integers(0, 5), dimensions=st.integers(1, 70))
def test_blobs_round_trip(seed: int, count: int, dimensions: int):
    rows = quantise(unit_vectors(seed, count, dimensions=dimensions), dimensions=dimensions)

    blobs = pack_blobs(rows)
    back = unpack_blobs(blobs, dimensions=dimensions)

    assert [dimensions + 5] * count == [len(blob) for blob in blobs]
    np.testing.assert_array_equal(rows.codes, back.codes)
    np.testing.assert_array_equal(rows.scales, back.scales)


@given(seed=SEEDS)
def test_quantising_restored_vectors_gives_the_same_codes(seed: int):
    rows = quantise(unit_vectors(seed, 4), dimensions=DIMENSIONS)

    again = quantise(restore(rows), dimensions=DIMENSIONS)

    np.testing.assert_array_equal(rows.codes, again.codes)
    np.testing.assert_array_equal(rows.scales, again.scales)


@given(seed=SEEDS)
def test_the_opposite_vector_has_the_opposite_codes(seed: int):
    vectors = unit_vectors(seed, 4)

    codes = quantise(vectors, dimensions=DIMENSIONS).codes

    np.testing.assert_array_equal(-codes, quantise(-vectors, dimensions=DIMENSIONS).codes)
    assert np.abs(codes.astype(np.int16)).max() == CODE_MAX


@given(seed=SEEDS, dimensions=st.integers(1, 200))
def test_sign_bits_are_padded_to_whole_words(seed: int, dimensions: int):
    codes = quantise(unit_vectors(seed, 3, dimensions=dimensions), dimensions=dimensions).codes

    bits = sign_bits(codes)

    assert (bit_words(dimensions), 3) == bits.shape
    each = np.unpackbits(np.ascontiguousarray(bits.T).view(np.uint8), axis=1)
    np.testing.assert_array_equal(codes > 0, each[:, :dimensions])
    assert not each[:, dimensions:].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_vector_that_is_not_finite_is_refused(bad: float):
    vectors = unit_vectors(1, 3).astype(np.float64)
    vectors[1, 5] = bad

    with pytest.raises(InvalidVectorError):
        quantise(vectors, dimensions=DIMENSIONS)


def test_a_zero_vector_is_refused():
    vectors = unit_vectors(1, 3)
    vectors[2] = 0

    with pytest.raises(InvalidVectorError):
        quantise(vectors, dimensions=DIMENSIONS)


@pytest.mark.parametrize("shape", [(2, DIMENSIONS - 1), (2, DIMENSIONS + 1), (DIMENSIONS,), (2, 0)])
def test_a_vector_of_other_dimensions_is_refused(shape: tuple[int, ...]):
    with pytest.raises(InvalidVectorError):
        quantise(np.ones(shape), dimensions=DIMENSIONS)


def test_the_smallest_numbers_still_have_a_direction():
    tiny = np.full((1, DIMENSIONS), np.finfo(np.float32).smallest_subnormal)

    assert (quantise(tiny, dimensions=DIMENSIONS).codes == CODE_MAX).all()


def damages() -> dict[str, Callable[[bytes], bytes]]:
    return {
        "cut": lambda blob: blob[:-1],
        "longer": lambda blob: blob + b"\0",
        "version": lambda blob: b"\2" + blob[1:],
        "zero scale": lambda blob: blob[:1] + b"\0\0\0\0" + blob[5:],
        "NaN scale": lambda blob: blob[:1] + b"\0\0\xc0\x7f" + blob[5:],
    }


@pytest.mark.parametrize("damage", damages().values(), ids=damages())
def test_a_damaged_blob_is_refused(damage: Callable[[bytes], bytes]):
    blobs = pack_blobs(quantise(unit_vectors(1, 3), dimensions=DIMENSIONS))
    blobs[1] = damage(blobs[1])

    with pytest.raises(StoreCorruptError):
        unpack_blobs(blobs, dimensions=DIMENSIONS)

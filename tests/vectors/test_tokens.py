"""Token vectors at two bits a dimension: what packing keeps, what is refused, and how they match."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidVectorError, StoreCorruptError
from engram.limits import TOKEN_VECTOR_BYTES_MAX
from engram.vectors.arrays import Floats
from engram.vectors.kernels import Kernels, NumpyKernels, SimdKernels
from engram.vectors.tokens import (
    TOKEN_BYTES,
    TOKEN_DIMENSIONS,
    TOKENS_MAX,
    are_tokens,
    best_cosines,
    pack_tokens,
    unpack_tokens,
)
from tests.vectors.made import unit_vectors

COSINE_KEPT_MIN = 0.88
"""Four levels keep 0.94 of a normal distribution on average; a single vector may lose more."""


def some_tokens(count: int, *, seed: int = 1) -> Floats:
    """Return unit vectors as a projection makes them."""
    return unit_vectors(seed, count, dimensions=TOKEN_DIMENSIONS)


def restore_tokens(blob: bytes) -> Floats:
    """Return the unit vectors that a blob stands for."""
    codes, lengths, _ = unpack_tokens([blob])
    return (codes / lengths[:, np.newaxis]).astype(np.float32)


@given(count=st.integers(1, TOKENS_MAX), seed=st.integers(0, 2**32))
def test_packed_tokens_point_almost_where_they_did(count: int, seed: int) -> None:
    tokens = some_tokens(count, seed=seed)

    restored = restore_tokens(pack_tokens(tokens))

    cosines = np.vecdot(tokens, restored)
    assert cosines.min() > COSINE_KEPT_MIN
    assert np.linalg.norm(restored, axis=1) == pytest.approx(np.ones(count), abs=1e-5)


@given(count=st.integers(1, TOKENS_MAX), seed=st.integers(0, 2**32))
def test_packing_what_was_restored_changes_nothing(count: int, seed: int) -> None:
    packed = pack_tokens(some_tokens(count, seed=seed))

    assert pack_tokens(restore_tokens(packed)) == packed


def test_the_most_tokens_fit_into_the_bytes_of_a_message() -> None:
    packed = pack_tokens(some_tokens(TOKENS_MAX))

    assert are_tokens(packed)
    assert len(packed) <= TOKEN_VECTOR_BYTES_MAX < len(packed) + TOKEN_BYTES


@pytest.mark.parametrize(
    "shape",
    [(0, TOKEN_DIMENSIONS), (TOKENS_MAX + 1, TOKEN_DIMENSIONS), (3, 64), (TOKEN_DIMENSIONS,)],
)
def test_vectors_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidVectorError):
        pack_tokens(np.ones(shape, dtype=np.float32))


WHOLE = pack_tokens(some_tokens(2))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        WHOLE[:1],
        WHOLE[:-1],
        WHOLE + b"\0",
        b"\2" + WHOLE[1:],
        WHOLE[:1] + bytes(TOKEN_BYTES * (TOKENS_MAX + 1)),
    ],
)
def test_bytes_of_a_wrong_size_or_version_are_refused(blob: bytes) -> None:
    assert not are_tokens(blob)
    with pytest.raises(StoreCorruptError):
        best_cosines(some_tokens(1), [WHOLE, blob], NumpyKernels())


def test_a_token_of_a_query_matches_the_best_one_of_each_text() -> None:
    tokens = some_tokens(6)
    texts = [pack_tokens(tokens[:1]), pack_tokens(tokens[1:4]), pack_tokens(tokens[4:])]

    best = best_cosines(tokens[[2, 5]], texts, NumpyKernels())

    assert best.argmax(axis=0).tolist() == [1, 2]
    assert best[[1, 2], [0, 1]] == pytest.approx([0.94, 0.94], abs=0.05)
    assert best.shape == (3, 2)


@given(seed=st.integers(0, 2**32), counts=st.lists(st.integers(1, 9), max_size=5))
def test_matches_are_those_of_the_restored_vectors_on_every_kernel(
    seed: int, counts: list[int]
) -> None:
    query = some_tokens(3, seed=seed)
    texts = [pack_tokens(some_tokens(count, seed=seed + count)) for count in counts]
    kernels: list[Kernels] = [NumpyKernels(), SimdKernels()]

    first, second = (best_cosines(query, texts, each) for each in kernels)

    expected = [(restore_tokens(text) @ query.T).max(axis=0) for text in texts]
    assert first.tobytes() == second.tobytes()
    assert first == pytest.approx(np.array(expected).reshape(-1, 3), abs=0.02)

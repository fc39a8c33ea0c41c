"""Vectors and keys for tests, and the plain float arithmetic that results are compared with."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from engram.model.row_keys import SEQUENCE_BITS
from engram.vectors.arrays import Cosines, Floats, Keys
from engram.vectors.kernels import Kernels
from engram.vectors.matrix import VectorMatrix
from engram.vectors.quantise import CODE_MAX, quantise

DIMENSIONS = 24


def unit_vectors(seed: int, count: int, *, dimensions: int = DIMENSIONS) -> Floats:
    """Return random unit vectors."""
    raw = np.random.default_rng(seed).standard_normal((count, dimensions))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def clustered_vectors(
    seed: int, count: int, *, dimensions: int, clusters: int, spread: float
) -> Floats:
    """Return unit vectors in a few clusters, as models produce them."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((clusters, dimensions))
    noise = random.standard_normal((count, dimensions))
    raw = centres[random.integers(0, clusters, count)] + spread * noise
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def matrix_of(keys: Keys, vectors: Floats, *, kernels: Kernels | None = None) -> VectorMatrix:
    """Return a matrix with these rows."""
    matrix = VectorMatrix(vectors.shape[1], kernels=kernels)
    matrix.add(keys, quantise(vectors, dimensions=vectors.shape[1]))
    return matrix


def error_bound(vectors: Floats) -> float:
    """Return an upper bound of the angle by which quantisation moves any of these vectors."""
    peaks = np.abs(vectors).max(axis=1)
    lengths = np.linalg.norm(vectors, axis=1)
    return float((np.sqrt(vectors.shape[1]) * peaks / (2 * CODE_MAX) / lengths).max()) + 1e-5


def best_cosines(query: Floats, keys: Keys, vectors: Floats) -> dict[int, float]:
    """Return the best cosine of each key in float arithmetic."""
    cosines: Cosines = vectors.astype(np.float64) @ query.astype(np.float64)
    best: dict[int, float] = {}
    for key, cosine in zip(keys.tolist(), cosines.tolist(), strict=True):
        best[key] = max(best.get(key, -2.0), cosine)
    return best


def all_answers(matrix: VectorMatrix, query: Floats, keys: Keys) -> Cosines:
    """Return the answers of a matrix to every kind of query, concatenated."""
    answers = (
        *matrix.search(query, 100),
        *matrix.search(query, 100, allowed=keys),
        *matrix.compare_messages(query, keys),
    )
    return np.concatenate(answers).astype(np.float64)


def message_keys(conversations: int, messages: int) -> st.SearchStrategy[int]:
    """Generate message keys in a few short conversations."""

    def key(conversation: int, sequence: int) -> int:
        return conversation << SEQUENCE_BITS | sequence

    return st.builds(key, st.integers(0, conversations - 1), st.integers(0, messages - 1))

"""Processor time of a vector search beside the bare scan of all bytes, and the memory of a vector."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bench.figures import Figure
from engram.limits import LEG_CANDIDATES
from engram.vectors.arrays import Codes, Floats, Keys
from engram.vectors.kernels import best_kernels
from engram.vectors.matrix import VectorMatrix
from engram.vectors.quantise import quantise

DIMENSIONS = 384
CLUSTERS = 2_000
SPREAD = 1.5
BATCH = 10_000
ROUNDS = 15
ALLOWED_SHARE = 100
CONVERSATION_MESSAGES = 100

SCAN_BOUNDS = {10_000: 3.0, 100_000: 1.5, 1_000_000: 0.6}
"""Small matrices are compared whole and then ranked; in large ones bits spare most of the bytes."""

FILTERED_BOUND = 0.5
FILTERED_ROWS = 100_000
"""The bound is for so many; a tenth of a millisecond is what any search costs."""

MEMORY_BOUND = 1.15
"""Keys, scales, the index of keys and the room at the end."""


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of vectors in memory."""
    counts = (10_000, 100_000) if quick else tuple(SCAN_BOUNDS)
    return [figure for count in counts for figure in _figures(count)]


def _figures(count: int) -> Iterator[Figure]:
    random = np.random.default_rng(7)
    centres = random.standard_normal((CLUSTERS, DIMENSIONS), dtype=np.float32)
    queries = _vectors(random, centres, ROUNDS)
    keys = _keys(count)
    matrix, codes = VectorMatrix(DIMENSIONS), np.empty((count, DIMENSIONS), dtype=np.int8)
    for start in range(0, count, BATCH):
        part = slice(start, start + BATCH)
        rows = quantise(_vectors(random, centres, BATCH), dimensions=DIMENSIONS)
        codes[part] = rows.codes
        matrix.add(keys[part], rows)
    allowed = np.sort(random.choice(keys, count // ALLOWED_SHARE, replace=False))
    candidates = np.sort(random.choice(keys, 3 * LEG_CANDIDATES, replace=False))
    yield from _search_figures(matrix, codes, queries, allowed)
    yield _candidates_figure(matrix, queries, candidates)
    yield _memory_figure(matrix)


def _search_figures(
    matrix: VectorMatrix, codes: Codes, queries: Floats, allowed: Keys
) -> Iterator[Figure]:
    kernels = best_kernels()
    asked = quantise(queries, dimensions=DIMENSIONS).codes
    scan = _processor_ms(lambda turn: kernels.products(asked[turn], codes))
    yield Figure(
        name=f"vector search over {len(matrix):,} vectors",
        value=_processor_ms(lambda turn: matrix.search(queries[turn], LEG_CANDIDATES)),
        unit="CPU ms",
        floor=scan,
        floor_name="bare scan of all bytes",
        direction="at most",
        bound=SCAN_BOUNDS[len(matrix)],
    )
    yield Figure(
        name=f"vector search over {len(allowed):,} allowed of {len(matrix):,} vectors",
        value=_processor_ms(
            lambda turn: matrix.search(queries[turn], LEG_CANDIDATES, allowed=allowed)
        ),
        unit="CPU ms",
        floor=scan,
        floor_name="bare scan of all bytes",
        direction="at most",
        bound=None if len(matrix) < FILTERED_ROWS else FILTERED_BOUND,
    )


def _candidates_figure(matrix: VectorMatrix, queries: Floats, candidates: Keys) -> Figure:
    return Figure(
        name=f"{len(candidates)} candidates and their neighbours among {len(matrix):,}",
        value=_processor_ms(lambda turn: matrix.compare_messages(queries[turn], candidates)),
        unit="CPU ms",
        floor=_processor_ms(
            lambda turn: matrix.search(queries[turn], len(candidates), allowed=candidates)
        ),
        floor_name="a search among the candidates alone",
        direction="at most",
        bound=None,
    )


def _memory_figure(matrix: VectorMatrix) -> Figure:
    return Figure(
        name=f"memory of one of {len(matrix):,} vectors",
        value=matrix.bytes / len(matrix),
        unit="bytes",
        floor=DIMENSIONS + DIMENSIONS / 8,
        floor_name="its bytes and bits",
        direction="at most",
        bound=None if len(matrix) < max(SCAN_BOUNDS) else MEMORY_BOUND,
    )


def _processor_ms(work: Callable[[int], object]) -> float:
    """Return the processor time of one turn, the median of all."""
    work(0)
    times: list[float] = []
    for turn in range(ROUNDS):
        started = time.process_time()
        work(turn)
        times.append(time.process_time() - started)
    return 1000 * statistics.median(times)


def _vectors(random: np.random.Generator, centres: Floats, count: int) -> Floats:
    """Return vectors that crowd around the centres, as those of a model do."""
    noise = random.standard_normal((count, DIMENSIONS), dtype=np.float32)
    noise *= SPREAD
    noise += centres[random.integers(0, len(centres), count)]
    return noise


def _keys(count: int) -> Keys:
    """Return the keys of messages in conversations of a common length."""
    conversations, messages = np.divmod(np.arange(count), CONVERSATION_MESSAGES)
    return (conversations + 1) << 24 | messages + 1

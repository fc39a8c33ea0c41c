"""Processor time of a search by meaning and words beside its parts, in stores of growing size."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.bare import bare_model
from bench.figures import Figure, allowed, results_directory
from bench.filling import append_chat, fill_messages, new_organization
from bench.indexing import INDEXING_LIMIT_S
from bench.opening import Parts, open_parts
from bench.planting import BATCH, plant_store
from bench.search import ask_fts5, found_keys, index_windows, queries
from bench.texts import chat
from bench.timing import Spent, Stopwatch, median_cpu, percentile, timed
from engram.embedding.choice import LocalModel
from engram.embedding.registry import ARCTIC
from engram.limits import LEG_CANDIDATES
from engram.model.access import Principal
from engram.model.search import SearchAnswer, SearchRequest
from engram.settings import Settings
from engram.vectors.arrays import Floats
from engram.vectors.matrix import VectorMatrix
from engram.vectors.quantise import unpack_blobs

LATENCIES = "latency.json"

SMALL = 600
SMALL_MS_MAX = 3.0
PARTS_BOUND = 1.5
APPENDS_ROUNDS = 5
ROUNDS = {SMALL: 15, 10_000: 9, 100_000: 5, 1_000_000: 3}


@dataclass(frozen=True, slots=True)
class Latency:
    """What searches in a store of one size took, the embedding of the query left out."""

    messages: int
    p50_ms: float
    p95_ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class _Measured:
    """Rounds over all queries, in which the search and its parts took turns."""

    messages: int
    searches: Sequence[Sequence[Spent]]
    """Of each round, the time of each query."""
    parts: Sequence[Spent]
    scans: Sequence[Spent]

    @property
    def search_ms(self) -> float:
        return 1000 * statistics.median(self._rounds_s) / len(queries())

    @property
    def quickest_ms(self) -> float:
        """Of the quickest round: to a time, others on the machine only ever add."""
        return 1000 * min(self._rounds_s) / len(queries())

    @property
    def _rounds_s(self) -> list[float]:
        return [sum(spent.cpu_s for spent in each) for each in self.searches]

    @property
    def parts_ms(self) -> float:
        return 1000 * (median_cpu(self.parts) + median_cpu(self.scans)) / len(queries())

    def latency(self) -> Latency:
        """Return percentiles over the queries; of each query, the median of its rounds."""
        walls = [
            1000 * statistics.median(spent.wall_s for spent in turns)
            for turns in zip(*self.searches, strict=True)
        ]
        return Latency(
            self.messages, percentile(walls, 0.5), percentile(walls, 0.95), self.search_ms
        )


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of the search, and keep its latencies for the chart."""
    sizes = list(ROUNDS)[:2] if quick else list(ROUNDS)
    measured = [asyncio.run(_measure(size)) for size in sizes]
    rows = [asdict(each.latency()) for each in measured]
    path = results_directory(quick=quick) / LATENCIES
    path.write_text(json.dumps(rows, indent=2) + "\n")
    return [
        *_figures(measured),
        asyncio.run(_after_appends_figure()),
        asyncio.run(_embedding_figure()),
    ]


def load_latencies() -> list[Latency]:
    """Return the latencies of the last full run.

    Raises:
        FileNotFoundError: there was none.
    """
    path = results_directory(quick=False) / LATENCIES
    return [Latency(**row) for row in json.loads(path.read_bytes())]


def _figures(measured: Sequence[_Measured]) -> Iterator[Figure]:
    small = measured[0]
    yield allowed(
        f"search over {small.messages:,} messages, without the query's embedding, quickest round",
        small.quickest_ms,
        unit="CPU ms",
        at_most=SMALL_MS_MAX,
    )
    for each in measured:
        is_real = each.messages == SMALL
        yield Figure(
            name=f"search over {each.messages:,} messages"
            + ("" if is_real else " with planted vectors"),
            value=each.search_ms,
            unit="CPU ms",
            floor=each.parts_ms,
            floor_name="bare vector scan, bare FTS5 for messages and windows, reading what is found",
            direction="at most",
            bound=None if is_real else PARTS_BOUND,
        )


async def _measure(size: int) -> _Measured:
    async with _filled(size) as (parts, principal, path):
        with closing(sqlite3.connect(path)) as connection:
            answers = [await _search(parts, principal, query) for query in queries()]
            found = [found_keys(connection, answer) for answer in answers]
            matrix, vectors = _read_matrix(connection), await _query_vectors(parts)
            index_windows(connection)
            ask_fts5(connection, found)
            searches: list[list[Spent]] = []
            bare: list[Spent] = []
            scans: list[Spent] = []
            for _ in range(ROUNDS[size]):
                searches.append([await _timed_search(parts, principal, q) for q in queries()])
                bare.append(timed(lambda: ask_fts5(connection, found)))
                scans.append(timed(lambda: _scan(matrix, vectors)))
    return _Measured(size, searches, bare, scans)


@asynccontextmanager
async def _filled(size: int) -> AsyncGenerator[tuple[Parts, Principal, Path]]:
    """Yield a store whose messages all have deep vectors: those of the model only in a small one."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        home = Path(directory)
        if size == SMALL:
            principal = await _embed_store(home, messages=size)
        else:
            principal = (await plant_store(home, messages=size)).principal
        async with open_parts(Settings(home=home, embedder=LocalModel())) as parts:
            yield parts, principal, home / "orgs" / f"{principal.organization_id}.db"


async def _embed_store(home: Path, *, messages: int) -> Principal:
    async with open_parts(Settings(home=home, embedder=LocalModel())) as parts:
        principal = await new_organization(parts.service)
        await fill_messages(parts.service, principal, messages=messages)
        await parts.indexer.drain(principal.organization_id, limit_s=INDEXING_LIMIT_S)
    return principal


async def _search(parts: Parts, principal: Principal, query: str) -> SearchAnswer:
    answer = await parts.service.search.search(principal, SearchRequest(query=query))
    assert answer.degraded == (), answer.degraded
    return answer


async def _timed_search(parts: Parts, principal: Principal, query: str) -> Spent:
    """Return the time of a search whose query was asked before, so that its vector is known."""
    watch = Stopwatch()
    await _search(parts, principal, query)
    return watch.spent()


async def _query_vectors(parts: Parts) -> list[Floats]:
    assert parts.tiers.deep is not None
    return [await parts.tiers.deep.embed_query(query) for query in queries()]


def _read_matrix(connection: sqlite3.Connection) -> VectorMatrix:
    """Return all deep vectors of a file."""
    dimensions = ARCTIC.identity.dimensions
    matrix = VectorMatrix(dimensions)
    rows = connection.execute("SELECT key, content FROM vector ORDER BY seq")
    while some := rows.fetchmany(BATCH):
        keys, blobs = zip(*some, strict=True)
        matrix.add(np.array(keys), unpack_blobs(blobs, dimensions=dimensions))
    return matrix


def _scan(matrix: VectorMatrix, vectors: Sequence[Floats]) -> None:
    for vector in vectors:
        matrix.search(vector, LEG_CANDIDATES)


async def _after_appends_figure() -> Figure:
    """Return what a search costs that finds nothing of the one before remembered."""
    texts = chat(SMALL)
    async with _filled(SMALL) as (parts, principal, _):
        pairs: list[tuple[Spent, Spent]] = []
        for query in queries() * APPENDS_ROUNDS:
            await append_chat(parts.service, principal, [next(texts)])
            after = await _timed_search(parts, principal, query)
            pairs.append((after, await _timed_search(parts, principal, query)))
    own, floor = (1000 * median_cpu(side) for side in zip(*pairs, strict=True))
    return Figure(
        name=f"search over {SMALL:,} messages, after an append",
        value=own,
        unit="CPU ms",
        floor=floor,
        floor_name="the same search again",
        direction="at most",
        bound=None,
    )


async def _embedding_figure() -> Figure:
    """Return what a new query costs on top: both models in the service, the deep one alone."""
    model = bare_model()
    prefix = ARCTIC.identity.query_prefix
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        async with open_parts(Settings(home=Path(directory), embedder=LocalModel())) as parts:
            await _embed_queries(parts)
            pairs = [
                (
                    await _embed_queries(parts),
                    timed(lambda: [model.embed_start(prefix + query) for query in queries()]),
                )
                for _ in range(ROUNDS[10_000])
            ]
    own, floor = (1000 * median_cpu(side) / len(queries()) for side in zip(*pairs, strict=True))
    return Figure(
        name="embedding a query with both models",
        value=own,
        unit="CPU ms",
        floor=floor,
        floor_name="bare deep model",
        direction="at most",
        bound=None,
    )


async def _embed_queries(parts: Parts) -> Spent:
    watch = Stopwatch()
    for embedder in parts.tiers.all:
        for query in queries():
            await embedder.embed_query(query)
    return watch.spent()

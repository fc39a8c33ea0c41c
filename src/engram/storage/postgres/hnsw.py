"""Vectors of big organisations: an HNSW index finds the nearest, which are then compared exactly.

Each big organisation has a partition of `near_vector` with its own index. It is derived from the
vectors and may lag behind them: a search compares the newest in memory. Vectors that were removed
may still be found there, but have no bytes to be compared by, so they are never returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import psycopg

from engram.model.vectors import Tier
from engram.storage.postgres.connection import Driver, set_up, translate, translated_failures
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.threads import WorkerThreads
from engram.storage.vectors.embedders import StoredEmbedder, read_embedders
from engram.vectors.arrays import Cosines, Keys, Query, distinct
from engram.vectors.matrix import VectorMatrix
from engram.vectors.neighbours import Compared
from engram.vectors.quantise import restore, unpack_blobs
from engram.vectors.snapshot import Allowed, Asked, KeyRanges, VectorSnapshot

_SQL = load_queries("postgres/hnsw.sql")
_TABLES: dict[Tier, str] = {"instant": "instant_vector", "deep": "vector"}

EXACT_ROWS_MAX = 20_000
"""Where conditions leave no more passages than this, all of them are compared."""

VECTORS_MIN = 500_000
"""Fewer are compared in memory, which is exact and cheaper: 5 CPU ms a search at 200,000 on a server at rest, and 15
through an index (`docs/scaling.md` has the figures). More would fill a process's memory for vectors."""

PARTITIONS_MAX = 200
"""Of one database: every search through one, and every start of the server, reads the list of them. An organisation
that finds no room is compared in memory like smaller ones."""

BEHIND_MAX = 5_000
"""Changes after which the partition is updated."""

_WANTED_PER_KEY = 3
"""Passages fetched for each message wanted: the index is approximate, and a message may have several."""

_WANTED_MAX = 1_000
"""The largest `hnsw.ef_search` that pgvector accepts."""

_REACH = 2
"""Neighbours on each side of a message."""

_BATCH = 2_000
_LOCK = 0x4E656172 << 32
"""Advisory lock, with the organisation's number in its lower half."""


class HnswVectors:
    """The `ComparedVectors` of one embedder: most are in the database, the newest in memory."""

    def __init__(
        self, tx: Transaction, embedder: StoredEmbedder, *, tier: Tier, newest: VectorSnapshot
    ) -> None:
        self._tx = tx
        self._embedder = embedder
        self._tier: Tier = tier
        self._newest = newest

    @property
    def rows_live(self) -> int:
        return 1

    def prepare(self, query: Query | Asked) -> Asked:
        return self._newest.prepare(query)

    def search(
        self, query: Query | Asked, k: int, *, allowed: Allowed | None = None
    ) -> tuple[Keys, Cosines]:
        asked = self.prepare(query)
        ranges = None if allowed is None else _multirange(allowed)
        if ranges is not None and self._count(ranges) <= EXACT_ROWS_MAX:
            found = self._snapshot("vectors_allowed", allowed=ranges)
            return found.search(_for_other_vectors(asked), k)
        newest, _ = self._newest.search(asked, k, allowed=allowed)
        near = self._nearest(asked, k, ranges)
        return self._of(distinct(np.concatenate((near, newest)))).search(
            _for_other_vectors(asked), k
        )

    def compare_messages(self, query: Query | Asked, keys: Keys) -> Compared:
        around = keys[:, np.newaxis] + np.arange(-_REACH, _REACH + 1)
        vectors = self._of(distinct(around.reshape(-1)))
        return vectors.compare_messages(_for_other_vectors(self.prepare(query)), keys)

    def _nearest(self, asked: Asked, k: int, ranges: str | None) -> Keys:
        """Return the messages of the passages that the index finds nearest."""
        wanted = min(_WANTED_PER_KEY * k, _WANTED_MAX)
        self._ask("look_wide", wanted=wanted)
        condition = "" if ranges is None else _SQL["is_allowed"]
        statement = _SQL["nearest"].replace("/*conditions*/", condition)
        number, dimensions = self._embedder.number, self._embedder.dimensions
        rows = self._tx.execute(
            _fill_in(statement, embedder=number, dimensions=dimensions),
            query=_halfvec(restore(asked.rows)[0]),
            wanted=wanted,
            **({} if ranges is None else {"allowed": ranges}),
        )
        return np.fromiter((key for (key,) in rows), dtype=np.int64)

    def _count(self, ranges: str) -> int:
        limit = EXACT_ROWS_MAX + 1
        return self._ask("count_allowed", allowed=ranges, limit=limit)[0][0]

    def _of(self, keys: Keys) -> VectorSnapshot:
        return self._snapshot("vectors_of", keys=json.dumps(keys.tolist()))

    def _snapshot(self, name: str, **values: Any) -> VectorSnapshot:
        rows = self._ask(name, **values)
        dimensions = self._embedder.dimensions
        matrix = VectorMatrix(dimensions)
        blobs = [content for _, content in rows]
        matrix.add([key for key, _ in rows], unpack_blobs(blobs, dimensions=dimensions))
        return matrix.snapshot

    def _ask(self, name: str, **values: Any) -> list[Any]:
        statement = _fill_in(_SQL[name], table=_TABLES[self._tier])
        return self._tx.execute(statement, embedder=self._embedder.number, **values).fetchall()


@dataclass(frozen=True, slots=True)
class _Lag:
    """An embedder whose newest vectors are missing from the partition."""

    tier: Tier
    embedder: StoredEmbedder
    newest: int


async def update_partition(
    tenant: Tenant, connect: Callable[[], Driver], threads: WorkerThreads
) -> int:
    """Add the newest vectors of a big organisation to its partition; return how many were added.

    Adds nothing while few are missing, or while another process adds them.

    Raises:
        NotFoundError: it was deleted, or moved to another home: the partition would be left here.
    """
    tenant = replace(tenant, find_moved=None)
    lag = await tenant.read(_find_lag)
    if lag is None:
        return 0
    added = await threads.run(partial(_fill, connect, tenant.number, lag))
    if added is None:
        return 0

    def record(tx: Transaction) -> None:
        tx.execute(_SQL["add_upto"], number=lag.embedder.number, upto=lag.newest)

    await tenant.write(record)
    return added


def _find_lag(tx: Transaction) -> _Lag | None:
    row = tx.execute(_SQL["sizes"]).fetchone()
    if row is None or row[1] < VECTORS_MIN:
        return None
    newest: int = row[0]
    embedders = read_embedders(tx).by_role
    tier: Tier = "deep" if "deep" in embedders else "instant"
    embedder = embedders.get(tier)
    if embedder is None or newest - (embedder.near_upto or 0) < BEHIND_MAX:
        return None
    return _Lag(tier, embedder, newest)


def _fill(connect: Callable[[], Driver], organization: int, lag: _Lag) -> int | None:
    """Copy missing vectors to the partition; return how many, None if another process does it or there is no room.

    It needs a connection of its own: building an index takes longer than a request may.
    """
    with translated_failures(), closing(connect()) as driver:
        set_up(driver)
        partition = _Partition(driver, organization, lag)
        if not partition.value("try_lock", lock=_LOCK | organization):
            return None
        if not partition.value("find_partition"):
            if partition.value("count_partitions") >= PARTITIONS_MAX:
                return None
            # It is attached only after it is filled, so nobody searches half of it.
            partition.run("create_partition")
        added = partition.fill()
        partition.run("make_searchable")
        return added


def drop_partition(connect: Callable[[], Driver], organization: int) -> None:
    """Remove the partition of an organisation that was deleted."""
    with translated_failures(), closing(connect()) as driver:
        set_up(driver)
        with driver.transaction():
            for name in ("choose", "drop_partition"):
                driver.execute(_fill_in(_SQL[name], organization=organization).encode())


class _Partition:
    """The partition of one organisation, while it is filled."""

    def __init__(self, driver: Driver, organization: int, lag: _Lag) -> None:
        self._driver = driver
        self._organization = organization
        self._lag = lag

    def fill(self) -> int:
        """Add the vectors that are missing; return how many."""
        seq = self._lag.embedder.near_upto or 0
        self.run("remove_others")
        self.run("remove_after", seq=seq)
        added = 0
        while rows := self.run("vectors_after", seq=seq, limit=_BATCH).fetchall():
            rows = [row for row in rows if row[0] <= self._lag.newest]
            if not rows:
                break
            self._add(rows)
            added += len(rows)
            seq = rows[-1][0]
        return added

    def value(self, name: str, **values: Any) -> Any:
        """Return the only value of a statement."""
        row = self.run(name, **values).fetchone()
        return None if row is None else row[0]

    def run(self, name: str, **values: Any) -> psycopg.Cursor[Any]:
        """Run a statement in a transaction of the organisation."""
        embedder = self._lag.embedder.number
        scope = {"organization_id": self._organization, "embedder": embedder}
        with self._driver.transaction():
            self._driver.execute(self._statement("choose"))
            return self._driver.execute(self._statement(name), scope | values)

    def _add(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        dimensions = self._lag.embedder.dimensions
        vectors = restore(unpack_blobs([content for _, _, content in rows], dimensions=dimensions))
        # COPY is refused for tables with row-level security.
        self.run(
            "add_vectors",
            seqs=[str(seq) for seq, _, _ in rows],
            keys=[str(key) for _, key, _ in rows],
            vectors=[_halfvec(vector) for vector in vectors],
        )

    def _statement(self, name: str) -> bytes:
        embedder = self._lag.embedder
        filled = _fill_in(
            _SQL[name],
            organization=self._organization,
            embedder=embedder.number,
            dimensions=embedder.dimensions,
            table=_TABLES[self._lag.tier],
        )
        return translate(filled).text


def _fill_in(statement: str, **names: str | int) -> str:
    """Put numbers and names of this program's own into a statement."""
    for name, value in names.items():
        statement = statement.replace(f"/*{name}*/", str(value))
    return statement


def _halfvec(vector: Cosines | np.ndarray[Any, Any]) -> str:
    """Return a vector in the text form of pgvector."""
    return "[" + ",".join(f"{value:.5g}" for value in vector.tolist()) + "]"


def _for_other_vectors(asked: Asked) -> Asked:
    """Return a query without what was computed for other vectors."""
    return replace(asked, every=[])


def _multirange(allowed: Allowed) -> str:
    ranges = allowed if isinstance(allowed, KeyRanges) else KeyRanges.of_keys(allowed)
    pairs = zip(ranges.firsts.tolist(), ranges.lasts.tolist(), strict=True)
    return "{" + ",".join(f"[{first},{last}]" for first, last in pairs) + "}"

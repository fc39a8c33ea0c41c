"""Give the vectors of big organisations a partition with an index of neighbours, while serving.

What the partition holds follows from the vectors. It may lag behind: who searches compares the
newest ones in memory. Vectors that were removed may still be found there; they have no bytes to be
compared by, so nobody gets to see them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg

from engram.model.vectors import Tier
from engram.storage.postgres.connection import set_up
from engram.storage.postgres.dialect import translate
from engram.storage.postgres.failures import translated_failures
from engram.storage.postgres.near_vectors import TABLES, fill_in, halfvec
from engram.storage.postgres.pool import Driver
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import StoredEmbedder, read_embedders
from engram.vectors.quantise import restore, unpack_blobs

_SQL = load_queries("postgres/near.sql")

VECTORS_MIN = 50_000
"""Fewer are compared in memory in a millisecond or two, and none is missed."""

BEHIND_MAX = 5_000
"""Changes after which the partition follows."""

_BATCH = 2_000
_LOCK = 0x4E656172 << 32
"""With an organisation's number below; only ever taken as that, in a database that is Engram's."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """An embedder whose vectors the partition lacks."""

    tier: Tier
    embedder: StoredEmbedder
    newest: int


def find_lagging(tx: Transaction) -> Lagging | None:
    """Return whose vectors are to be moved, if there are enough of them."""
    row = tx.execute(_SQL["sizes"]).fetchone()
    if row is None or row[1] < VECTORS_MIN:
        return None
    newest: int = row[0]
    embedders = read_embedders(tx).by_role
    tier: Tier = "deep" if "deep" in embedders else "instant"
    embedder = embedders.get(tier)
    if embedder is None or newest - (embedder.near_upto or 0) < BEHIND_MAX:
        return None
    return Lagging(tier, embedder, newest)


def move(
    connect: Callable[[], Driver], tenant: Tenant, lagging: Lagging, *, batch: int = _BATCH
) -> int | None:
    """Bring the partition up to the newest vectors; return how many came to it.

    None when another process does this. Building an index takes longer than a request may.
    """
    with translated_failures(), closing(connect()) as driver:
        set_up(driver)
        moving = _Moving(driver, tenant.number, lagging)
        if not moving.value("try_lock", lock=_LOCK | tenant.number):
            return None
        moving.make_partition()
        moved = moving.copy(batch)
        moving.make_searchable()
        return moved


def note_moved(tx: Transaction, *, lagging: Lagging) -> None:
    """Let searches rely on the partition."""
    number = lagging.embedder.number
    tx.execute(_SQL["add_upto"], number=number, upto=lagging.newest)


def drop_partition(connect: Callable[[], Driver], organization: int) -> None:
    """Remove what an organisation that was deleted had."""
    with translated_failures(), closing(connect()) as driver:
        set_up(driver)
        with driver.transaction():
            for name in ("choose", "drop_partition"):
                driver.execute(fill_in(_SQL[name], organization=organization).encode())


class _Moving:
    """One organisation's vectors on their way."""

    def __init__(self, driver: Driver, organization: int, lagging: Lagging) -> None:
        self._driver = driver
        self._organization = organization
        self._lagging = lagging

    def make_partition(self) -> None:
        """Create the partition; it is filled before anybody can search in it."""
        if not self.value("find_partition"):
            self._run("create_partition")

    def copy(self, batch: int) -> int:
        """Copy the vectors that the partition lacks."""
        seq = self._lagging.embedder.near_upto or 0
        self._run("remove_others")
        self._run("remove_after", seq=seq)
        moved = 0
        while rows := self._run("vectors_after", seq=seq, limit=batch).fetchall():
            rows = [row for row in rows if row[0] <= self._lagging.newest]
            if not rows:
                break
            self._add(rows)
            moved += len(rows)
            seq = rows[-1][0]
        return moved

    def make_searchable(self) -> None:
        """Build the index if there is none, and attach the partition if it is not."""
        self._run("make_searchable")

    def value(self, name: str, **values: Any) -> Any:
        """Return the only value of a statement."""
        row = self._run(name, **values).fetchone()
        return None if row is None else row[0]

    def _add(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        embedder = self._lagging.embedder
        vectors = restore(
            unpack_blobs([content for _, _, content in rows], dimensions=embedder.dimensions)
        )
        # COPY is not for tables with row-level security.
        self._run(
            "add_vectors",
            seqs=[str(seq) for seq, _, _ in rows],
            keys=[str(key) for _, key, _ in rows],
            vectors=[halfvec(vector) for vector in vectors],
        )

    def _run(self, name: str, **values: Any) -> psycopg.Cursor[Any]:
        embedder = self._lagging.embedder.number
        with self._driver.transaction():
            self._driver.execute(self._statement("choose"))
            return self._driver.execute(
                self._statement(name),
                {"organization_id": self._organization, "embedder": embedder, **values},
            )

    def _statement(self, name: str) -> bytes:
        embedder = self._lagging.embedder
        return translate(
            fill_in(
                _SQL[name],
                organization=self._organization,
                embedder=embedder.number,
                dimensions=embedder.dimensions,
                table=TABLES[self._lagging.tier],
            )
        ).text

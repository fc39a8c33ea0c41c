"""Remove the vectors of embedders that have lost their role, some at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from engram.model.vectors import Tier
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import count_change

ROWS_AT_ONCE = 2_000
"""Removed in one transaction, about 1 MB."""

_SQL = load_queries("vectors/old_vectors.sql")
_FIND: dict[Tier, str] = {"instant": "old_instant_vectors", "deep": "old_vectors"}
_DELETE: dict[Tier, str] = {"instant": "delete_old_instant_vectors", "deep": "delete_old_vectors"}


async def drop_old_vectors(tenant: Tenant) -> int:
    """Remove what no embedder with a role owns; return how many vectors that were."""
    if not await tenant.read(_has_old):
        return 0
    removed = await _drop(tenant, "instant") + await _drop(tenant, "deep")
    await tenant.write(_delete_embedders)
    return removed


async def _drop(tenant: Tenant, tier: Tier) -> int:
    """Remove one tier's old vectors; they are looked for before the write lock is held."""
    removed = after = 0
    while seqs := await tenant.read(partial(_find, tier=tier, after=after)):
        removed += await tenant.write(partial(_delete, tier=tier, seqs=seqs))
        after = seqs[-1]
    return removed


def _has_old(tx: Transaction) -> bool:
    return tx.execute(_SQL["has_old"]).fetchone() is not None


def _find(tx: Transaction, *, tier: Tier, after: int) -> list[int]:
    values = {"after": after, "limit": ROWS_AT_ONCE}
    return [seq for (seq,) in tx.execute(_SQL[_FIND[tier]], **values)]


def _delete(tx: Transaction, *, tier: Tier, seqs: Sequence[int]) -> int:
    statement = _SQL[_DELETE[tier]]
    removed = tx.execute(statement, seqs=json.dumps(seqs)).rowcount
    count_change(tx, vectors=-removed, pending=0)
    return removed


def _delete_embedders(tx: Transaction) -> None:
    tx.execute(_SQL["delete_old_embedders"])

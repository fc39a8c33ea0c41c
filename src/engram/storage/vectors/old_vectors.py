"""Remove the vectors of embedders that have lost their role, some at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from engram.model.vectors import Tier
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant
from engram.storage.vectors.rows import count_change

ROWS_AT_ONCE = 2_000
"""Removed in one transaction, about 1 MB."""

_SQL = load_queries("vectors/old_vectors.sql")
_FIND: dict[Tier, str] = {"instant": "old_instant_vectors", "deep": "old_vectors"}
_DELETE: dict[Tier, str] = {"instant": "delete_old_instant_vectors", "deep": "delete_old_vectors"}


async def drop_old_vectors(tenant: Tenant) -> int:
    """Remove what no embedder with a role owns; return how many vectors that were."""
    if not await tenant.database.read(lambda connection: _has_old(connection, tenant)):
        return 0
    removed = await _drop(tenant, "instant") + await _drop(tenant, "deep")
    await tenant.database.write(lambda connection: _delete_embedders(connection, tenant))
    return removed


async def _drop(tenant: Tenant, tier: Tier) -> int:
    """Remove one tier's old vectors; they are looked for before the write lock is held."""
    removed = after = 0
    while seqs := await tenant.database.read(partial(_find, tenant=tenant, tier=tier, after=after)):
        removed += await tenant.database.write(
            partial(_delete, tenant=tenant, tier=tier, seqs=seqs)
        )
        after = seqs[-1]
    return removed


def _has_old(connection: Connection, tenant: Tenant) -> bool:
    return tenant.execute(connection, _SQL["has_old"]).fetchone() is not None


def _find(connection: Connection, *, tenant: Tenant, tier: Tier, after: int) -> list[int]:
    values = {"after": after, "limit": ROWS_AT_ONCE}
    return [seq for (seq,) in tenant.execute(connection, _SQL[_FIND[tier]], **values)]


def _delete(connection: Connection, *, tenant: Tenant, tier: Tier, seqs: Sequence[int]) -> int:
    statement = _SQL[_DELETE[tier]]
    removed = tenant.execute(connection, statement, seqs=json.dumps(seqs)).rowcount
    count_change(connection, tenant, vectors=-removed, pending=0)
    return removed


def _delete_embedders(connection: Connection, tenant: Tenant) -> None:
    tenant.execute(connection, _SQL["delete_old_embedders"])

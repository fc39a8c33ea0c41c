"""Queue of messages without deep vectors, leased to one process at a time, newest first."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from engram import limits
from engram.clock import from_microseconds
from engram.model.ids import MessageKey
from engram.model.row_keys import conversation_of, kind_of
from engram.model.vectors import Embedded, StoredIdentities, Unembedded, units_of
from engram.storage.content.messages import read_names, read_readable
from engram.storage.queue import RETRY_DELAY_MAX, UNEMBEDDED
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import read_embedders, register
from engram.storage.vectors.rows import enqueue_missing, keys_within, replace_instant

logger = logging.getLogger(__name__)

_SQL = load_queries("vectors/unembedded.sql")

DAMAGED_DELAY = RETRY_DELAY_MAX
"""Until a message that cannot be read is tried again: it may have been restored by then."""


async def identities(tenant: Tenant) -> StoredIdentities:
    """Return the identities of the embedders whose vectors the organisation has."""
    return await tenant.read(lambda tx: read_embedders(tx).identities())


async def adopt_embedder(tenant: Tenant, identity: str) -> bool:
    """Make an embedder the deep one if there is none; return True if it is the deep one then."""
    stored = await identities(tenant)
    if stored.deep is not None:
        return stored.deep == identity

    def adopt(tx: Transaction) -> bool:
        if register(tx, role="deep", identity=identity) is None:
            return False
        enqueue_missing(tx)
        return True

    return await tenant.write(adopt)


async def claim_unembedded(
    tenant: Tenant, *, owner: str, lease: timedelta, limit: int, characters_max: int
) -> tuple[Unembedded, ...]:
    """Lease queued messages, newest first; reads before it writes."""
    find = partial(_claimable, limit=limit, characters_max=characters_max)
    while await tenant.read(find):
        attempts = await tenant.write(
            lambda tx: UNEMBEDDED.claim(tx, find(tx), owner=owner, lease=lease)
        )
        claimed, damaged = await tenant.read(partial(_read, attempts=attempts))
        if damaged:
            await postpone_unembedded(tenant, damaged, owner=owner, delay=DAMAGED_DELAY)
        if claimed:
            return claimed
    return ()


async def has_leased(tenant: Tenant) -> bool:
    """Return True if any process has leased messages of the queue."""
    return await tenant.read(UNEMBEDDED.is_leased)


async def oldest_unembedded(tenant: Tenant) -> datetime | None:
    """Return when the oldest message at the ends of the queue was stored; None if none waits."""

    def read(tx: Transaction) -> int | None:
        found = tx.execute(_SQL["oldest_unembedded"], limit=limits.UNEMBEDDED_ENDS)
        return found.fetchone()[0]

    oldest = await tenant.read(read)
    return None if oldest is None else from_microseconds(oldest)


async def store_vectors(
    tenant: Tenant, identity: str, embedded: Sequence[Embedded], *, owner: str
) -> int:
    """Store deep vectors of messages still leased to `owner`; return of how many messages."""

    def store(tx: Transaction) -> int:
        embedder = read_embedders(tx).matching("deep", identity)
        if embedder is None:
            return 0  # Another embedder has taken over; the messages stay queued for that one.
        finished = UNEMBEDDED.finish(tx, [message.key for message in embedded], owner=owner)
        leased = [message for message in embedded if message.key in finished]
        replace_instant(tx, embedder, leased)
        return len(leased)

    return await tenant.write(store)


async def renew_unembedded(
    tenant: Tenant, keys: Sequence[MessageKey], *, owner: str, lease: timedelta
) -> None:
    """Renew the leases of messages that are still leased to `owner`."""
    await tenant.write(lambda tx: UNEMBEDDED.renew(tx, keys, owner=owner, lease=lease))


async def postpone_unembedded(
    tenant: Tenant, keys: Sequence[MessageKey], *, owner: str, delay: timedelta
) -> None:
    """Release messages that are still leased to `owner`; they can be claimed after `delay`."""
    await tenant.write(lambda tx: UNEMBEDDED.release(tx, keys, owner=owner, delay=delay))


def _claimable(tx: Transaction, *, limit: int, characters_max: int) -> list[MessageKey]:
    """Return the next messages, at least one and not much more text than asked."""
    return keys_within(UNEMBEDDED.find(tx, limit=limit), characters_max=characters_max)


def _read(
    tx: Transaction, *, attempts: dict[MessageKey, int]
) -> tuple[tuple[Unembedded, ...], list[MessageKey]]:
    """Return the messages that can be read, and the keys of those that cannot."""
    messages, damaged = read_readable(tx, attempts)
    for reason in damaged.values():
        logger.warning("a message gets no vector: %s", reason)
    names = read_names(tx, messages)
    found = (
        Unembedded(
            key=key,
            name=names[key],
            content=message.content,
            units=units_of(kind_of(conversation_of(key)), message.role),
            attempts=attempts[key],
        )
        for key, message in messages.items()
    )
    return tuple(found), list(damaged)

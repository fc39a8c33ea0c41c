"""Messages that wait for deep vectors: leased to one process at a time, the newest first."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from engram.clock import to_microseconds
from engram.model.ids import MessageKey
from engram.model.row_keys import conversation_of, kind_of
from engram.model.vectors import Embedded, StoredIdentities, Unembedded
from engram.storage.content.messages import read_names, read_readable
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import read_embedders, register
from engram.storage.vectors.rows import enqueue_missing, replace_instant

logger = logging.getLogger(__name__)

DAMAGED_DELAY = timedelta(days=1)
"""A message that cannot be read is not tried again before somebody may have restored it."""

_SQL = load_queries("vectors/unembedded.sql")


async def identities(tenant: Tenant) -> StoredIdentities:
    """Return whose vectors the organisation holds."""
    return await tenant.read(lambda tx: read_embedders(tx).identities())


async def adopt_embedder(tenant: Tenant, identity: str) -> bool:
    """Make an embedder the deep one if there is none; return True if it is now."""
    stored = await identities(tenant)
    if stored.deep is not None:
        return stored.deep == identity
    return await tenant.write(partial(_adopt, identity=identity))


async def claim_unembedded(
    tenant: Tenant, *, owner: str, lease: timedelta, limit: int, characters_max: int
) -> tuple[Unembedded, ...]:
    """Lease waiting messages, the newest first; look before writing."""
    find = partial(_claimable, limit=limit, characters_max=characters_max)
    until = to_microseconds(tenant.clock.now() + lease)
    while await tenant.read(find):
        attempts = await tenant.write(lambda tx: _lease(tx, find(tx), owner=owner, until=until))
        claimed, damaged = await tenant.read(partial(_read, attempts=attempts))
        if damaged:
            await postpone_unembedded(tenant, damaged, owner=owner, delay=DAMAGED_DELAY)
        if claimed:
            return claimed
    return ()


async def has_leased(tenant: Tenant) -> bool:
    """Return True if any process holds waiting messages."""
    return await tenant.read(
        lambda tx: tx.execute(_SQL["has_leased"], now=tenant.now()).fetchone() is not None
    )


async def store_vectors(
    tenant: Tenant, identity: str, embedded: Sequence[Embedded], *, owner: str
) -> int:
    """Store deep vectors of messages still leased to `owner`; return how many messages that were."""
    return await tenant.write(partial(_store, identity=identity, embedded=embedded, owner=owner))


async def renew_unembedded(
    tenant: Tenant, keys: Sequence[MessageKey], *, owner: str, lease: timedelta
) -> None:
    """Hold messages for longer that are still leased to `owner`."""
    until = to_microseconds(tenant.clock.now() + lease)
    await _change(tenant, "renew_unembedded", keys, owner=owner, until=until)


async def postpone_unembedded(
    tenant: Tenant, keys: Sequence[MessageKey], *, owner: str, delay: timedelta
) -> None:
    """Give messages back that are still leased to `owner`, to be claimed after `delay`."""
    available_at = to_microseconds(tenant.clock.now() + delay)
    await _change(tenant, "postpone_unembedded", keys, owner=owner, available_at=available_at)


def _adopt(tx: Transaction, *, identity: str) -> bool:
    if register(tx, role="deep", identity=identity) is None:
        return False
    enqueue_missing(tx)
    return True


async def _change(
    tenant: Tenant, statement: str, keys: Sequence[MessageKey], *, owner: str, **values: int
) -> None:
    await tenant.write(
        lambda tx: (
            tx.execute(_SQL[statement], keys=json.dumps(keys), owner=owner, **values).rowcount
        )
    )


def _claimable(tx: Transaction, *, limit: int, characters_max: int) -> list[int]:
    """Return the numbers of the next messages, at least one and not much more text than asked."""
    rows = tx.execute(_SQL["find_unembedded"], now=tx.tenant.now(), limit=limit)
    numbers: list[int] = []
    characters = 0
    for number, _, length in rows.fetchall():
        characters += length
        if numbers and characters > characters_max:
            break
        numbers.append(number)
    return numbers


def _lease(
    tx: Transaction, numbers: Sequence[int], *, owner: str, until: int
) -> dict[MessageKey, int]:
    """Return the keys of the messages leased, the newest first, and how often each was."""
    rows = tx.execute(
        _SQL["lease_unembedded"], owner=owner, until=until, numbers=json.dumps(numbers)
    )
    newest_first = sorted(rows.fetchall(), reverse=True)
    return {key: attempts for _, key, attempts in newest_first}


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
            is_of_document=kind_of(conversation_of(key)) == "document",
            attempts=attempts[key],
        )
        for key, message in messages.items()
    )
    return tuple(found), list(damaged)


def _store(tx: Transaction, *, identity: str, embedded: Sequence[Embedded], owner: str) -> int:
    embedder = read_embedders(tx).matching("deep", identity)
    if embedder is None:
        return 0  # Another embedder has taken over; the messages wait on for that one.
    held = [
        message
        for message in embedded
        if tx.execute(_SQL["finish_unembedded"], key=message.key, owner=owner).rowcount
    ]
    replace_instant(tx, embedder, held)
    return len(held)

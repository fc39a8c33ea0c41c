"""Replace the deep vectors of an organisation by another embedder's, beside live traffic.

The new vectors are added beside the old ones, under the role `next`, and take over in the transaction
that finds no message without them. The replaced embedder only loses its role in that transaction; its
vectors are removed afterwards in batches. So a search sees all old vectors or all new ones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from engram.errors import ConflictError
from engram.model.ids import MessageKey
from engram.model.row_keys import KIND_BITS, KINDS, conversation_of, kind_of, message_key
from engram.model.vectors import (
    Embedded,
    ReembeddingBegun,
    Tier,
    Unmoved,
    UnmovedBatch,
    UnmovedCount,
    units_of,
)
from engram.storage.content.messages import read_names, read_readable
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import Embedders, StoredEmbedder, read_embedders, register
from engram.storage.vectors.rows import (
    add_unembedded,
    add_vectors,
    count_change,
    enqueue_missing,
    keys_within,
)

_SQL = load_queries("vectors/reembedding.sql")
_UNEMBEDDED = load_queries("vectors/unembedded.sql")
_NOBODY = -1
"""The number of no embedder."""

ROWS_AT_ONCE = 2_000
"""Vectors removed in one transaction, about 1 MB."""

_FIND: dict[Tier, str] = {"instant": "old_instant_vectors", "deep": "old_vectors"}
_DELETE: dict[Tier, str] = {"instant": "delete_old_instant_vectors", "deep": "delete_old_vectors"}


async def begin_reembedding(tenant: Tenant, identity: str) -> ReembeddingBegun:
    """Give an embedder the role `next`, and take it from any other embedder."""

    def begin(tx: Transaction) -> ReembeddingBegun:
        if read_embedders(tx).deep is None:
            register(tx, role="deep", identity=identity)
            enqueue_missing(tx)
        embedders = read_embedders(tx)
        is_current = embedders.matching("deep", identity) is not None
        half_built = embedders.by_role.get("next")
        dropped = None
        if half_built is not None and (is_current or half_built.identity != identity):
            _change_role(tx, half_built, role="old")
            dropped = half_built.identity
        if not is_current:
            register(tx, role="next", identity=identity)
        return ReembeddingBegun(is_current=is_current, dropped=dropped)

    return await tenant.write(begin)


async def measure_unmoved(
    tenant: Tenant, identity: str, *, passage_characters: int
) -> UnmovedCount:
    """Count the messages without a vector of an embedder."""

    def measure(tx: Transaction) -> UnmovedCount:
        embedders = read_embedders(tx)
        embedder = embedders.matching("deep", identity) or embedders.matching("next", identity)
        row = tx.execute(
            _SQL["measure_unmoved"],
            embedder=_NOBODY if embedder is None else embedder.number,
            passage_characters=passage_characters,
        ).fetchone()
        return UnmovedCount(*row)

    return await tenant.read(measure)


async def read_unmoved(
    tenant: Tenant,
    identity: str,
    *,
    after: MessageKey | None,
    limit: int,
    characters_max: int,
    without: Collection[MessageKey],
) -> UnmovedBatch:
    """Return the next messages without a vector of the next embedder; `after` None is anywhere."""

    def read(tx: Transaction) -> UnmovedBatch:
        embedder = _next(read_embedders(tx), identity)
        if embedder is None:
            return UnmovedBatch()
        keys = _unmoved_keys(
            tx,
            embedder,
            after=_random_start(tx, embedder) if after is None else after,
            limit=limit,
            characters_max=characters_max,
            without=without,
        )
        return read_batch(tx, keys)

    return await tenant.read(read)


def read_batch(tx: Transaction, keys: Sequence[MessageKey]) -> UnmovedBatch:
    """Return the messages of some keys as texts to embed."""
    messages, damaged = read_readable(tx, keys)
    names = read_names(tx, messages)
    unmoved = (
        Unmoved(
            key=key,
            name=names[key],
            content=message.content,
            units=units_of(kind_of(conversation_of(key)), message.role),
        )
        for key, message in messages.items()
    )
    return UnmovedBatch(messages=tuple(unmoved), unreadable=tuple(damaged))


async def store_next_vectors(tenant: Tenant, identity: str, embedded: Sequence[Embedded]) -> int:
    """Store vectors of the next embedder; return of how many messages."""

    def store(tx: Transaction) -> int:
        embedder = _next(read_embedders(tx), identity)
        if embedder is None:
            return 0
        lacking = _lacking(tx, embedder, [message.key for message in embedded])
        owned = [
            (message.key, passage)
            for message in embedded
            if message.key in lacking
            for passage in message.passages
        ]
        add_vectors(tx, embedder, "deep", owned)
        count_change(tx, vectors=len(owned), pending=0)
        return len(lacking)

    return await tenant.write(store)


async def finish_reembedding(
    tenant: Tenant, identity: str, *, without: Collection[MessageKey]
) -> bool:
    """Let the next embedder take over if every message has its vectors; return True if it has."""

    def finish(tx: Transaction) -> bool:
        embedders = read_embedders(tx)
        embedder = _next(embedders, identity)
        if embedder is None:
            return True
        if _unmoved_keys(tx, embedder, after=0, limit=1, characters_max=0, without=without):
            return False
        _take_over(tx, embedders, _lacking(tx, embedder, without))
        return True

    return await tenant.write(finish)


def _next(embedders: Embedders, identity: str) -> StoredEmbedder | None:
    """Return the next embedder if it is that of `identity`; None if that has taken over already.

    Raises:
        ConflictError: it is another one by now.
    """
    if embedders.matching("deep", identity) is not None:
        return None
    found = embedders.matching("next", identity)
    if found is None:
        raise ConflictError("another re-embedding has begun, to another embedder")
    return found


def _unmoved_keys(
    tx: Transaction,
    embedder: StoredEmbedder,
    *,
    after: int,
    limit: int,
    characters_max: int,
    without: Collection[MessageKey] = (),
) -> list[MessageKey]:
    """Return the next messages, at least one if there is any, and not more text than asked."""
    rows = tx.execute(
        _SQL["find_unmoved"],
        embedder=embedder.number,
        after=after,
        without=_as_json(without),
        limit=limit,
    )
    return keys_within(rows, characters_max=characters_max)


def _random_start(tx: Transaction, embedder: StoredEmbedder) -> int:
    """Return a random key before one of the messages that have no vector yet.

    Processes that start at different places seldom embed the same messages.
    """
    ranges = _unmoved_ranges(tx, embedder)
    keys = sum(map(len, ranges))
    if not keys:
        return 0
    place: int = tx.connection.execute(_SQL["any_place"], {"count": keys}).fetchone()[0]
    for span in ranges:
        if place < len(span):
            return span[place] - 1
        place -= len(span)
    raise AssertionError("a place lies in one of the ranges")


def _unmoved_ranges(tx: Transaction, embedder: StoredEmbedder) -> list[range]:
    """Return for each kind of record the range of keys that contains its messages without vectors."""
    ranges: list[range] = []
    for place in range(len(KINDS)):
        before = message_key(place << KIND_BITS, 0)
        end = message_key((place + 1) << KIND_BITS, 0)
        first = _unmoved_keys(tx, embedder, after=before, limit=1, characters_max=0)
        if first and first[0] < end:
            (last,) = tx.execute(
                _SQL["last_unmoved"], embedder=embedder.number, before=end
            ).fetchone()
            ranges.append(range(first[0], last + 1))
    return ranges


def _take_over(tx: Transaction, embedders: Embedders, lacking: Collection[MessageKey]) -> None:
    """Make the next embedder the deep one; only messages of `lacking` are left to wait for it."""
    keys = _as_json(lacking)
    for role in ("deep", "instant"):
        replaced = embedders.by_role.get(role)
        if replaced is not None:
            _change_role(tx, replaced, role="old")
    _change_role(tx, embedders.by_role["next"], role="deep")
    instant = embedders.by_role.get("instant")
    if instant is not None and lacking:
        register(tx, role="instant", identity=instant.identity)
        tx.execute(_SQL["keep_instants"], keys=keys)
    ended = tx.execute(_SQL["end_waiting"], keys=keys).rowcount
    waiting = {key for (key,) in tx.execute(_UNEMBEDDED["list_unembedded"])}
    begun = [key for key in lacking if key not in waiting]
    add_unembedded(tx, begun)
    count_change(tx, vectors=0, pending=len(begun) - ended)


def _lacking(
    tx: Transaction, embedder: StoredEmbedder, keys: Collection[MessageKey]
) -> set[MessageKey]:
    """Return those of the messages that exist and have no vector of the embedder."""
    rows = tx.execute(_SQL["lacking"], embedder=embedder.number, keys=_as_json(keys))
    return {key for (key,) in rows}


def _change_role(tx: Transaction, embedder: StoredEmbedder, *, role: str) -> None:
    tx.execute(_SQL["change_role"], number=embedder.number, role=role)


def _as_json(keys: Collection[MessageKey]) -> str:
    return json.dumps(list(keys))


async def drop_old_vectors(tenant: Tenant) -> int:
    """Remove the vectors of embedders without a role, in batches; return how many."""
    if await tenant.read(lambda tx: tx.execute(_SQL["has_old"]).fetchone()) is None:
        return 0
    removed = await _drop(tenant, "instant") + await _drop(tenant, "deep")
    await tenant.write(lambda tx: tx.execute(_SQL["delete_old_embedders"]).rowcount)
    return removed


async def _drop(tenant: Tenant, tier: Tier) -> int:
    """Remove one tier's old vectors; they are searched for before the write lock is taken."""

    def find(tx: Transaction) -> list[int]:
        rows = tx.execute(_SQL[_FIND[tier]], after=after, limit=ROWS_AT_ONCE)
        return [seq for (seq,) in rows]

    def delete(tx: Transaction) -> int:
        deleted = tx.execute(_SQL[_DELETE[tier]], seqs=json.dumps(seqs)).rowcount
        count_change(tx, vectors=-deleted, pending=0)
        return deleted

    removed = after = 0
    while seqs := await tenant.read(find):
        removed += await tenant.write(delete)
        after = seqs[-1]
    return removed

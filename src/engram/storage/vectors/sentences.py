"""Add the vectors of sentences and of tokens to messages that were embedded without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engram.limits import SENTENCES_FROM_TOKENS
from engram.model.ids import MessageKey
from engram.model.vectors import Embedded, PassageVector, UnmovedBatch
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import StoredEmbedder, read_embedders
from engram.storage.vectors.reembedding import read_batch
from engram.storage.vectors.rows import add_vectors, check_tokens, count_change, keys_within
from engram.text.passages import SENTENCES_UPTO_CHARACTERS

_SQL = load_queries("vectors/sentences.sql")


async def read_undivided(
    tenant: Tenant, identity: str, *, after: MessageKey, limit: int, characters_max: int
) -> UnmovedBatch:
    """Return the next messages of conversations that have one deep vector and may have sentences."""
    lengths = {
        "characters_min": SENTENCES_FROM_TOKENS,
        "characters_max": SENTENCES_UPTO_CHARACTERS,
    }
    find = partial(_find, "find_undivided", identity, after=after, limit=limit, **lengths)
    return await tenant.read(partial(_read, find=find, characters_max=characters_max))


async def read_without_tokens(
    tenant: Tenant, identity: str, *, after: MessageKey, limit: int, characters_max: int
) -> UnmovedBatch:
    """Return the next messages of conversations that have a deep vector and none of their tokens."""
    find = partial(_find, "find_without_tokens", identity, after=after, limit=limit)
    return await tenant.read(partial(_read, find=find, characters_max=characters_max))


def _find(name: str, identity: str, tx: Transaction, **values: int) -> list[tuple[int, int]]:
    """Return key and length of messages; none if the deep embedder is another."""
    embedder = read_embedders(tx).matching("deep", identity)
    if embedder is None:
        return []
    return tx.execute(_SQL[name], embedder=embedder.number, **values).fetchall()


def _read(
    tx: Transaction, *, find: Callable[[Transaction], list[tuple[int, int]]], characters_max: int
) -> UnmovedBatch:
    return read_batch(tx, keys_within(find(tx), characters_max=characters_max))


async def add_missing_vectors(tenant: Tenant, identity: str, embedded: Sequence[Embedded]) -> int:
    """Store the vectors of passages that have none, and of their tokens; return of how many messages.

    Messages that have no vector at all are left to the queue.
    """

    def add(tx: Transaction) -> int:
        embedder = read_embedders(tx).matching("deep", identity)
        if embedder is None:
            return 0
        completed = {each.key for each in embedded if _add_tokens(tx, embedder, each)}
        owned = [pair for message in embedded for pair in _missing(tx, embedder, message)]
        add_vectors(tx, embedder, "deep", owned)
        count_change(tx, vectors=len(owned), pending=0)
        return len(completed | {key for key, _ in owned})

    return await tenant.write(add)


def _add_tokens(tx: Transaction, embedder: StoredEmbedder, message: Embedded) -> bool:
    """Add token vectors to a vector that is stored without; return True if there was one."""
    check_tokens(message.passages)
    added = 0
    for passage in message.passages:
        if passage.tokens is not None:
            added += tx.execute(
                _SQL["put_tokens"],
                key=message.key,
                embedder=embedder.number,
                start=passage.start,
                end=passage.end,
                tokens=passage.tokens,
            ).rowcount
    return added > 0


def _missing(
    tx: Transaction, embedder: StoredEmbedder, message: Embedded
) -> list[tuple[int, PassageVector]]:
    rows = tx.execute(_SQL["ranges"], key=message.key, embedder=embedder.number)
    stored = {(start, end) for start, end in rows}
    if not stored:
        return []
    return [
        (message.key, passage)
        for passage in message.passages
        if (passage.start, passage.end) not in stored
    ]

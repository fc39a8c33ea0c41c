"""Add the vectors of sentences to messages that were embedded without them."""

from __future__ import annotations

from collections.abc import Sequence

from engram.limits import SENTENCES_FROM_TOKENS
from engram.model.ids import MessageKey
from engram.model.vectors import Embedded, PassageVector, UnmovedBatch
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import StoredEmbedder, read_embedders
from engram.storage.vectors.reembedding import read_batch
from engram.storage.vectors.rows import add_vectors, count_change, keys_within
from engram.text.sentences import SENTENCES_UPTO_CHARACTERS

_SQL = load_queries("vectors/sentences.sql")


async def read_undivided(
    tenant: Tenant, identity: str, *, after: MessageKey, limit: int, characters_max: int
) -> UnmovedBatch:
    """Return the next messages of conversations that have one deep vector and may have sentences."""

    def read(tx: Transaction) -> UnmovedBatch:
        embedder = read_embedders(tx).matching("deep", identity)
        if embedder is None:
            return UnmovedBatch()
        rows = tx.execute(
            _SQL["find_undivided"],
            embedder=embedder.number,
            after=after,
            characters_min=SENTENCES_FROM_TOKENS,
            characters_max=SENTENCES_UPTO_CHARACTERS,
            limit=limit,
        )
        return read_batch(tx, keys_within(rows, characters_max=characters_max))

    return await tenant.read(read)


async def add_missing_vectors(tenant: Tenant, identity: str, embedded: Sequence[Embedded]) -> int:
    """Store the vectors of passages that have none; return of how many messages.

    Messages that have no vector at all are left to the queue.
    """

    def add(tx: Transaction) -> int:
        embedder = read_embedders(tx).matching("deep", identity)
        if embedder is None:
            return 0
        owned = [pair for message in embedded for pair in _missing(tx, embedder, message)]
        add_vectors(tx, embedder, "deep", owned)
        count_change(tx, vectors=len(owned), pending=0)
        return len({key for key, _ in owned})

    return await tenant.write(add)


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

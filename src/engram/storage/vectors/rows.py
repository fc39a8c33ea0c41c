"""Add and remove the vectors of messages, and queue messages that have no deep ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from engram.errors import InvalidVectorError, StoreCorruptError
from engram.model.ids import MessageKey
from engram.model.row_keys import conversation_of, kind_of, message_key
from engram.model.vectors import Embedded, Indexing, NewVectors, PassageVector, Tier
from engram.storage.due import mark_due
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.vectors.embedders import Embedders, StoredEmbedder, read_embedders, register
from engram.storage.vectors.index import STATE_MISSING

_SQL = load_queries("vectors/vectors.sql")
_UNEMBEDDED = load_queries("vectors/unembedded.sql")
_ADD: dict[Tier, str] = {"instant": "add_instant_vector", "deep": "add_vector"}


def index_appended(tx: Transaction, keys: Sequence[int], indexing: Indexing) -> None:
    """Store the vectors of new messages, and queue those that have no deep ones."""
    embedders = read_embedders(tx)
    deep = embedders.deep
    added, tier = _add_new(tx, embedders, keys, indexing.vectors)
    if deep is None and tier == "deep":
        enqueue_missing(tx)  # those stored before there was an embedder
    is_queued = indexing.is_queued or deep is not None
    waiting = _without_deep(keys, indexing.vectors, tier) if is_queued else ()
    is_of_document = bool(keys) and kind_of(conversation_of(keys[0])) == "document"
    statement = "add_unembedded_last" if is_of_document else "add_unembedded"
    tx.execute_many(_UNEMBEDDED[statement], ({"key": key} for key in waiting))
    if waiting or (deep is None and tier != "deep"):
        # Without an embedder too: what is stored now waits for the first one.
        mark_due(tx, "vectors")
    count_change(tx, vectors=added, pending=len(waiting))


def _without_deep(keys: Sequence[int], new: NewVectors | None, tier: Tier | None) -> Sequence[int]:
    """Return those of the new messages that got no deep vectors."""
    if new is None or tier != "deep":
        return keys
    return [key for key, passages in zip(keys, new.messages, strict=True) if not passages]


def enqueue_missing(tx: Transaction) -> int:
    """Queue every message that has no vector of the deep embedder; return how many were added."""
    deep = read_embedders(tx).deep
    if deep is None:
        return 0
    (lowest,) = tx.execute(_UNEMBEDDED["lowest_unembedded"]).fetchone()
    values = {"lowest": lowest, "deep": deep.number}
    added = tx.execute(_UNEMBEDDED["add_all_unembedded"], **values).rowcount
    mark_due(tx, "vectors")
    count_change(tx, vectors=0, pending=added)
    return added


def add_unembedded(tx: Transaction, keys: Iterable[int]) -> None:
    """Queue messages, unless they wait already."""
    waiting = [{"key": key} for key in keys]
    if waiting:
        tx.execute_many(_UNEMBEDDED["add_unembedded"], waiting)
        mark_due(tx, "vectors")


def _add_new(
    tx: Transaction, embedders: Embedders, keys: Sequence[int], new: NewVectors | None
) -> tuple[int, Tier | None]:
    """Return how many vectors were added, and their tier; None if another embedder has its role."""
    if new is None:
        return 0, None
    embedder = embedders.matching(new.tier, new.identity) or register(
        tx, role=new.tier, identity=new.identity
    )
    if embedder is None:
        return 0, None
    owned = [
        (key, passage)
        for key, passages in zip(keys, new.messages, strict=True)
        for passage in passages
    ]
    last = None if embedders.state is None else embedders.state.seq
    add_vectors(tx, embedder, new.tier, owned, last_seq=last)
    return len(owned), new.tier


def add_vectors(
    tx: Transaction,
    embedder: StoredEmbedder,
    tier: Tier,
    owned: Sequence[tuple[int, PassageVector]],
    *,
    last_seq: int | None = None,
) -> None:
    """Add a row for each passage, under the key of its message; `last_seq` is the last change, if known.

    Raises:
        InvalidVectorError: one has other dimensions than the embedder's vectors.
    """
    _check_sizes(embedder, owned)
    taken = _seqs_taken(tx, len(owned))
    first = (taken() - len(owned) if last_seq is None else last_seq) + 1
    tx.execute_many(
        _SQL[_ADD[tier]],
        (
            {
                "seq": seq,
                "embedder": embedder.number,
                "key": key,
                "start": passage.start,
                "end": passage.end,
                "content": passage.content,
                **({"tokens": passage.tokens} if tier == "deep" else {}),
            }
            for seq, (key, passage) in enumerate(owned, first)
        ),
    )


def _check_sizes(embedder: StoredEmbedder, owned: Sequence[tuple[int, PassageVector]]) -> None:
    """Refuse vectors of a wrong size: a single one would make every search fail."""
    from engram.vectors.quantise import blob_bytes  # noqa: PLC0415 brings NumPy

    size = blob_bytes(embedder.dimensions)
    if any(len(passage.content) != size for _, passage in owned):
        raise InvalidVectorError(f"a vector is not of {embedder.dimensions} dimensions")
    check_tokens(passage for _, passage in owned)


def check_tokens(passages: Iterable[PassageVector]) -> None:
    """Refuse token vectors that could not be read back.

    Raises:
        InvalidVectorError: some have the wrong size or version.
    """
    from engram.vectors.tokens import are_tokens  # noqa: PLC0415 brings NumPy

    if any(each.tokens is not None and not are_tokens(each.tokens) for each in passages):
        raise InvalidVectorError("token vectors have the wrong size or version")


def replace_instant(
    tx: Transaction, embedder: StoredEmbedder, embedded: Sequence[Embedded]
) -> None:
    """Replace the instant vectors of messages by deep ones."""
    removed = 0
    for message in embedded:
        keys = {"first": message.key, "last": message.key}
        removed += tx.execute(_SQL["delete_instant_vectors"], **keys).rowcount
    owned = [(message.key, passage) for message in embedded for passage in message.passages]
    add_vectors(tx, embedder, "deep", owned)
    count_change(tx, vectors=len(owned) - removed, pending=-len(embedded))


def remove_conversation(tx: Transaction, conversation: int, *, last_sequence: int) -> int:
    """Remove the vectors of a conversation and log the removal; return how many there were."""
    return remove_messages(
        tx, first=message_key(conversation, 1), last=message_key(conversation, last_sequence)
    )


def remove_messages(tx: Transaction, *, first: int, last: int) -> int:
    """Remove the vectors of messages and log the removal; return how many there were."""
    keys = {"first": first, "last": last}
    waiting = tx.execute(_UNEMBEDDED["delete_unembedded"], **keys).rowcount
    removed = sum(
        tx.execute(_SQL[name], **keys).rowcount
        for name in ("delete_instant_vectors", "delete_vectors")
    )
    if removed:
        tx.execute(_SQL["add_removal"], seq=_take_seqs(tx, 1), **keys)
    count_change(tx, vectors=-removed, pending=-waiting)
    return removed


def copy_vectors(tx: Transaction, old: int, new: int) -> None:
    """Copy the vectors, or the place in the queue, of a message with the same text."""
    added = 0
    for count, copy in (
        ("count_instant_vectors", "copy_instant_vectors"),
        ("count_vectors", "copy_vectors"),
    ):
        (vectors,) = tx.execute(_SQL[count], key=old).fetchone()
        before = _take_seqs(tx, vectors) - vectors
        tx.execute(_SQL[copy], key=old, new=new, before=before)
        added += vectors
    is_waiting = tx.execute(_UNEMBEDDED["is_unembedded"], key=old).fetchone() is not None
    add_unembedded(tx, [new] if is_waiting else [])
    count_change(tx, vectors=added, pending=int(is_waiting))


def keys_within(rows: Iterable[tuple[int, int]], *, characters_max: int) -> list[MessageKey]:
    """Return the first keys of rows of key and length, at least one, and not more text than asked."""
    keys: list[MessageKey] = []
    characters = 0
    for key, length in rows:
        characters += length
        if keys and characters > characters_max:
            break
        keys.append(MessageKey(key))
    return keys


def count_change(tx: Transaction, *, vectors: int, pending: int) -> None:
    """Update the counters."""
    if vectors or pending:
        tx.execute(_SQL["count_change"], vectors=vectors, pending=pending)


def _take_seqs(tx: Transaction, count: int) -> int:
    """Take `count` numbers of the change log; return the last."""
    return _seqs_taken(tx, count)()


def _seqs_taken(tx: Transaction, count: int) -> Callable[[], int]:
    """Take `count` numbers of the change log; return what returns the last."""
    row = tx.row_later(_SQL["take_seqs"], count=count)

    def last() -> int:
        if (taken := row()) is None:
            raise StoreCorruptError(STATE_MISSING)
        return taken[0]

    return last

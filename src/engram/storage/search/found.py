"""Read what a search needs of an organisation, and the messages and memories that it found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engram.errors import StoreCorruptError
from engram.model.conversation import Conversation, Message
from engram.model.ids import ConversationKey, MessageKey
from engram.model.memory import Memory
from engram.model.row_keys import conversation_of, kind_of
from engram.model.search import Choice, ComparedPassage, Loaded
from engram.model.vectors import QueryVector
from engram.storage.bookkeeping.counters import COUNTERS_MISSING
from engram.storage.content.messages import (
    expect_rows,
    find_rows,
    read_conversations,
    read_rows,
)
from engram.storage.memories.relations import usefulness
from engram.storage.memories.rows import read_memories
from engram.storage.postings.index import WordStatistics
from engram.storage.rows.caches import CachedMessage
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.text.tokens import is_longer

_SQL = load_queries("search/found.sql")


class SearchState(NamedTuple):
    """What a search needs to know of the whole organisation, read once for all of its steps."""

    windows: WordStatistics
    revision: int
    """Of the word index."""
    pending: int
    """Messages that wait for deep vectors."""
    leaving: tuple[int, ...] = ()
    """Conversations that are being removed, and not found any more."""


def expect_search_state(tx: Transaction) -> None:
    """Prepare for `read_search_state`."""
    tx.ask_ahead(_SQL["search_state"])


def read_search_state(tx: Transaction) -> SearchState:
    """Return the state of the organisation for a search.

    Raises:
        StoreCorruptError: the counters are missing.
    """
    row = tx.execute(_SQL["search_state"]).fetchone()
    if row is None:
        raise StoreCorruptError(COUNTERS_MISSING)
    windows, words, revision, pending, leaving = row
    numbers = tuple(map(int, leaving.split(","))) if leaving else ()
    return SearchState(WordStatistics(windows, words), revision, pending, numbers)


def load_found(
    tx: Transaction, choice: Choice, *, state: SearchState, vectors: Sequence[QueryVector] = ()
) -> Loaded:
    """Return those of the chosen messages and conversations that still exist; records are memories."""
    chosen = choice.conversations
    records = [number for number in chosen if kind_of(number) != "conversation"]
    said = [key for key in choice.messages if kind_of(conversation_of(key)) != "memory"]
    numbers = [number for number in chosen if kind_of(number) == "conversation"]
    _expect_found(tx, said, records, revision=state.revision)
    known = read_conversations(tx, numbers)
    messages = _read_found(tx, said, known, revision=state.revision)
    memories = read_found_memories(tx, records) if records else {}
    whole_max = choice.whole_tokens_max
    long = list[MessageKey]()
    if whole_max is not None:
        texts = (
            (key, messages.get(key) or memories.get(conversation_of(key)))
            for key in choice.messages
        )
        long = [key for key, each in texts if each and is_longer(each.content, whole_max)]
    return Loaded(
        messages=messages,
        conversations=known,
        memories=memories,
        chunk_counts=_chunk_counts(tx, records),
        pending=state.pending,
        passages=_compared(tx, long, vectors),
    )


def _compared(
    tx: Transaction, keys: Sequence[MessageKey], vectors: Sequence[QueryVector]
) -> Mapping[MessageKey, Sequence[ComparedPassage]]:
    """Return the passages of messages, compared with a query; few answers have any."""
    if not keys:
        return {}
    from engram.storage.vectors.passages import compare_passages  # noqa: PLC0415 brings NumPy

    return compare_passages(tx, keys, vectors)


def _expect_found(
    tx: Transaction,
    said: Sequence[MessageKey],
    records: Sequence[ConversationKey],
    *,
    revision: int,
) -> None:
    """Prepare for what is read of messages and records, unless cached messages have changed."""
    entries = {key: tx.tenant.message_cache.get(key) for key in said}
    uncached = [key for key, entry in entries.items() if entry is None]
    unchecked = [key for key, entry in entries.items() if entry and entry.revision != revision]
    if uncached:
        expect_rows(tx, uncached)
    if unchecked:
        tx.ask_ahead(_SQL["load_hashes"], keys=json.dumps(unchecked))
    if records:
        tx.ask_ahead(_SQL["record_facts"], records=json.dumps(records))


def _read_found(
    tx: Transaction,
    keys: Sequence[MessageKey],
    known: Mapping[ConversationKey, Conversation],
    *,
    revision: int,
) -> dict[MessageKey, Message]:
    """Return the messages that exist among `keys`, from the cache as far as possible."""
    found = _cached(tx, keys, revision=revision)
    missing = [key for key in keys if key not in found]
    if missing:
        rows = find_rows(tx, missing)
        read = read_rows(tx, rows, known=known)
        for row in rows:
            entry = CachedMessage(read[MessageKey(row.key)], row.sha256, revision)
            tx.tenant.message_cache.put(row.key, entry)
        found |= read
    return found


def _cached(
    tx: Transaction, keys: Sequence[MessageKey], *, revision: int
) -> dict[MessageKey, Message]:
    """Return the messages that are cached, and still exist with the same SHA-256."""
    entries = {
        key: entry for key in keys if (entry := tx.tenant.message_cache.get(key)) is not None
    }
    found = {key: entry.message for key, entry in entries.items() if entry.revision == revision}
    unchecked = [key for key in entries if key not in found]
    if unchecked:
        for key, sha256 in tx.execute(_SQL["load_hashes"], keys=json.dumps(unchecked)):
            message = entries[key].message
            if entries[key].sha256 == sha256:
                tx.tenant.message_cache.put(key, CachedMessage(message, sha256, revision))
                found[key] = message
    return found


def _chunk_counts(
    tx: Transaction, records: Sequence[ConversationKey]
) -> dict[ConversationKey, int]:
    documents = [number for number in records if kind_of(number) == "document"]
    if not documents:
        return {}
    known = read_conversations(tx, documents)
    return {number: record.message_count for number, record in known.items()}


class Worth(NamedTuple):
    """What the score of a memory takes into account beside its relevance."""

    importance: int
    usefulness: float


def read_worths(tx: Transaction, records: Iterable[int]) -> dict[int, Worth]:
    """Return the worth of the memories with these records."""
    facts = _facts(tx, records)
    useful = usefulness(tx, [number for _, number, _ in facts])
    return {
        record: Worth(importance, useful.get(number, 0.0)) for record, number, importance in facts
    }


def read_found_memories(tx: Transaction, records: Iterable[int]) -> dict[ConversationKey, Memory]:
    """Return the memories with these records, by record.

    Raises:
        StoreCorruptError: the text of one cannot be read.
    """
    facts = _facts(tx, records)
    memories = read_memories(tx, [number for _, number, _ in facts])
    return {ConversationKey(record): memories[number] for record, number, _ in facts}


def count_times_passed(tx: Transaction, *, now: int) -> int:
    """Return how many validity and expiry times of memories have passed."""
    return tx.execute(_SQL["times_passed"], now=now).fetchone()[0]


def _facts(tx: Transaction, records: Iterable[int]) -> list[tuple[int, int, int]]:
    wanted = json.dumps(list(records))
    return tx.execute(_SQL["record_facts"], records=wanted).fetchall()

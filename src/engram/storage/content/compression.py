"""Background compression of stored texts: training dictionaries, and re-encoding rows of old encodings.

Measured on chats of 140 bytes a message: 16 KB of dictionary make the text smaller by 0.19 of it,
64 KB by 0.21. So a small store begins with a small dictionary and gets larger ones as it grows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import zstandard

from engram.errors import StoreCorruptError
from engram.model.row_keys import conversation_of, position_of
from engram.model.status import BackfillReport
from engram.storage import queue
from engram.storage.bookkeeping.state import State
from engram.storage.codec import RAW, ContentCodec, ContentError, train_dictionary
from engram.storage.content.dictionaries import count_erasures, without_dropped
from engram.storage.content.messages import MessageRow, decode_row, learn_dictionary
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("content/content.sql")

JOB_KIND = "train_dictionary"
JOB_SUBJECT = "messages"

FIRST_DUE_BYTES = 100_000
"""A dictionary trained on so much text pays for itself within twice as much."""

GROWTH = 4
"""Text has to grow so many times before a new dictionary would gain much."""

MESSAGES_MIN = 200
"""A dictionary is what messages have in common."""

DICTIONARY_BYTES_MAX = 65_536
TEXT_PER_DICTIONARY_BYTE = 8
SAMPLE_BYTES_MAX = 4_000_000
SAMPLE_MESSAGES_MAX = 20_000
SAMPLE_MESSAGE_BYTES_MAX = 16_384
"""The start of a long message is enough: the rest of it is compressed by what came before."""

BATCH_CHARACTERS = 16_000_000
"""Text that a backfill holds in memory at once; a batch of long messages has fewer of them."""

_HELD_BACK_EVERY = 10
_WORTHWHILE = 0.97
_LEVEL = 19


async def learn_awaited(tenant: Tenant) -> None:
    """Load the newest dictionary that another process has trained."""
    if (number := tenant.codec.awaited_dictionary) is not None:
        await tenant.read(partial(learn_dictionary, number=number))


def enqueue_when_due(
    tx: Transaction, state: State, *, messages: int, content_bytes: int, now: int
) -> None:
    """Enqueue a training in the write that makes one worthwhile, given what it adds."""
    total_bytes = state.content_bytes + content_bytes
    if total_bytes < state.dictionary_due_bytes or state.messages + messages < MESSAGES_MIN:
        return
    tx.execute(_SQL["set_dictionary_due"], due_bytes=total_bytes * GROWTH)
    queue.enqueue(tx, kind=JOB_KIND, subject=JOB_SUBJECT, now=now)


async def train(tenant: Tenant) -> bool:
    """Train a dictionary for new messages; False when there is too little text or no gain."""
    samples, erasures = await tenant.read(lambda tx: (_samples(tx), count_erasures(tx)))
    trained_bytes = sum(map(len, samples))
    if erasures.unfinished or trained_bytes < FIRST_DUE_BYTES or len(samples) < MESSAGES_MIN:
        return False
    dictionary = await asyncio.to_thread(_worthwhile_dictionary, samples)
    if dictionary is None:
        return False
    values = {
        "now": tenant.now(),
        "trained_bytes": trained_bytes,
        "content": zstandard.compress(dictionary, level=_LEVEL),
    }

    def add(tx: Transaction) -> int | None:
        # It may quote what was erased since the samples were read, and is trained again afterwards.
        if count_erasures(tx) != erasures:
            return None
        (number,) = tx.execute(_SQL["add_dictionary"], **values).fetchone()
        return number

    number = await tenant.write(add)
    if number is None:
        return False
    tenant.codec.add_dictionary(number, dictionary)
    return True


def _samples(tx: Transaction) -> list[bytes]:
    samples: list[bytes] = []
    left = SAMPLE_BYTES_MAX
    for row in tx.execute(_SQL["newest_messages"], limit=SAMPLE_MESSAGES_MAX):
        try:
            text = decode_row(tx, MessageRow._make(row))
        except ContentError:
            continue  # `verify` reports it; a dictionary does without
        samples.append(text.encode()[:SAMPLE_MESSAGE_BYTES_MAX])
        left -= len(samples[-1])
        if left <= 0:
            break
    return samples


def _worthwhile_dictionary(samples: Sequence[bytes]) -> bytes | None:
    """Return a dictionary if it compresses messages that it was not trained on."""
    trained = [text for index, text in enumerate(samples) if index % _HELD_BACK_EVERY]
    held_back = samples[::_HELD_BACK_EVERY]
    size = min(DICTIONARY_BYTES_MAX, sum(map(len, trained)) // TEXT_PER_DICTIONARY_BYTE)
    dictionary = train_dictionary(trained, dictionary_bytes=size)
    if dictionary is None:
        return None
    plain, with_dictionary = ContentCodec(), ContentCodec()
    with_dictionary.add_dictionary(1, dictionary)
    bytes_max = _WORTHWHILE * _stored_bytes(plain, held_back)
    return dictionary if _stored_bytes(with_dictionary, held_back) < bytes_max else None


def _stored_bytes(codec: ContentCodec, texts: Sequence[bytes]) -> int:
    return sum(len(codec.encode(text.decode(errors="replace")).content) for text in texts)


async def compress_backfill(tenant: Tenant, *, batch_size: int) -> BackfillReport:
    """Encode up to `batch_size` rows anew; 0 only counts them."""
    batch = await tenant.read(partial(_encode_batch, limit=batch_size))
    if batch:
        await tenant.write(
            lambda tx: tx.execute_many(_SQL["encode_message"], without_dropped(tx, batch))
        )
    skipped = sum(row["content_encoding"] == RAW for row in batch)
    (remaining,) = await tenant.read(lambda tx: tx.execute(_SQL["count_legacy"]).fetchone())
    return BackfillReport(
        processed=len(batch),
        compressed=len(batch) - skipped,
        skipped_too_small=skipped,
        remaining=remaining,
    )


def _encode_batch(tx: Transaction, *, limit: int) -> list[dict[str, object]]:
    """Return the values of `encode_message` for the next rows."""
    batch: list[dict[str, object]] = []
    characters = 0
    for values in tx.execute(_SQL["legacy_messages"], limit=limit):
        row = MessageRow._make(values)
        text = _text_of(tx, row)
        stored = tx.tenant.codec.encode(text)
        new = {"content_encoding": stored.encoding, "content": stored.content}
        batch.append({"key": row.key, **new})
        characters += len(text)
        if characters > BATCH_CHARACTERS:
            break
    return batch


def _text_of(tx: Transaction, row: MessageRow) -> str:
    try:
        return decode_row(tx, row)
    except ContentError as exc:
        raise StoreCorruptError(
            f"message {position_of(row.key)} of the conversation with number"
            f" {conversation_of(row.key)} cannot be read: {exc}"
        ) from exc

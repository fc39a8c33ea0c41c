"""Bring rows of old encodings to the present one, a batch at a time, beside live traffic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from engram.errors import StoreCorruptError
from engram.model.row_keys import conversation_of, position_of
from engram.model.status import BackfillReport
from engram.storage.codec import RAW, ContentError, StoredContent
from engram.storage.content.messages import MessageRow, decode_row
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

BATCH_CHARACTERS = 16_000_000
"""Text held in memory at once; a batch of long messages holds fewer of them."""

_SQL = load_queries("content/backfill.sql")


@dataclass(frozen=True, slots=True)
class _Encoded:
    key: int
    stored: StoredContent


async def compress_backfill(tenant: Tenant, *, batch_size: int) -> BackfillReport:
    """Encode up to `batch_size` rows anew; none only counts them."""
    batch = await tenant.read(partial(_encode_batch, limit=batch_size))
    if batch:
        await tenant.write(partial(_store_batch, batch=batch))
    skipped = sum(item.stored.encoding == RAW for item in batch)
    return BackfillReport(
        processed=len(batch),
        compressed=len(batch) - skipped,
        skipped_too_small=skipped,
        remaining=await tenant.read(_count_legacy),
    )


def _encode_batch(tx: Transaction, *, limit: int) -> list[_Encoded]:
    batch: list[_Encoded] = []
    characters = 0
    for values in tx.execute(_SQL["legacy_messages"], limit=limit):
        row = MessageRow._make(values)
        text = _text_of(tx, row)
        batch.append(_Encoded(row.key, tx.tenant.codec.encode(text)))
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


def _store_batch(tx: Transaction, *, batch: list[_Encoded]) -> None:
    tx.execute_many(
        _SQL["encode_message"],
        [
            {
                "key": item.key,
                "content_encoding": item.stored.encoding,
                "content": item.stored.content,
            }
            for item in batch
        ],
    )


def _count_legacy(tx: Transaction) -> int:
    return tx.execute(_SQL["count_legacy"]).fetchone()[0]

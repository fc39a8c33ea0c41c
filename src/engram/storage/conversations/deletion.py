"""Remove a conversation from every table and index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engram.errors import NotFoundError
from engram.model.conversation import DeletionReceipt
from engram.model.ids import ConversationId
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.stored_size import measure_conversation
from engram.storage.conversations.records import despite_damage, read_words, remove_record
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rows import Stretch
from engram.text.windows import window_count

_CONVERSATIONS = load_queries("conversations/conversations.sql")


async def delete_conversation(
    tenant: Tenant, conversation_id: ConversationId, *, actor: str
) -> DeletionReceipt:
    """Remove a conversation, and write its audit row."""
    return await despite_damage(tenant, partial(_delete, tenant, conversation_id, actor=actor))


async def _delete(
    tenant: Tenant, conversation_id: ConversationId, *, actor: str, skip_damaged: bool
) -> DeletionReceipt:
    known = await tenant.read(
        partial(_read_words, conversation_id=conversation_id, skip_damaged=skip_damaged)
    )
    return await tenant.write(
        partial(
            _transact,
            conversation_id=conversation_id,
            known=known,
            actor=actor,
            skip_damaged=skip_damaged,
        )
    )


def _read_words(
    tx: Transaction, *, conversation_id: ConversationId, skip_damaged: bool
) -> list[MessageWords]:
    stretch, _ = _find(tx, conversation_id)
    return read_words(tx, stretch, skip_damaged=skip_damaged)


def _transact(
    tx: Transaction,
    *,
    conversation_id: ConversationId,
    known: Sequence[MessageWords],
    actor: str,
    skip_damaged: bool,
) -> DeletionReceipt:
    stretch, content_bytes = _find(tx, conversation_id)
    stored_bytes = measure_conversation(tx, stretch.conversation)
    vectors = remove_record(tx, stretch, known=known, skip_damaged=skip_damaged)
    chunks = window_count(stretch.last_sequence)
    grow_counters(
        tx,
        conversations=-1,
        messages=-stretch.last_sequence,
        content_bytes=-content_bytes,
        chunks=-chunks,
        stored_bytes=-stored_bytes,
    )
    receipt = audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action="delete_conversation",
        subject=conversation_id,
        details={"messages": stretch.last_sequence, "chunks": chunks, "vectors": vectors},
    )
    return DeletionReceipt(
        messages=stretch.last_sequence, chunks=chunks, vectors=vectors, receipt=receipt
    )


def _find(tx: Transaction, conversation_id: ConversationId) -> tuple[Stretch, int]:
    """Return all of a conversation, and how many bytes its texts have."""
    row = tx.execute(_CONVERSATIONS["find_conversation"], id=conversation_id).fetchone()
    if row is None:
        raise NotFoundError("conversation", conversation_id)
    return Stretch(*row[:3]), row[3]

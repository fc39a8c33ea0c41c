"""Answer a repeated append as the first one was answered, for a day; refuse another one."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

from engram import limits
from engram.clock import to_microseconds
from engram.errors import IdempotencyConflictError
from engram.model.conversation import AppendReceipt, AppendRequest, MessageDraft
from engram.model.ids import ConversationId, message_id
from engram.storage.bookkeeping.stored_size import row_bytes
from engram.storage.content.preparation import PreparedMessages
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("conversations/messages.sql")

_LIFE = timedelta(hours=limits.IDEMPOTENCY_HOURS) // timedelta(microseconds=1)
_PURGED_AT_ONCE = 20


def find(tx: Transaction, key: str, *, request_sha256: bytes, now: int) -> AppendReceipt | None:
    """Return what the same append with this key was answered, if it counts still.

    Raises:
        IdempotencyConflictError: the key was sent with another append.
    """
    row = tx.execute(_SQL["find_idempotency"], key=key, since=now - _LIFE).fetchone()
    if row is None:
        return None
    *place, stored_sha256 = row
    if stored_sha256 not in (None, request_sha256):
        raise IdempotencyConflictError
    return receipt_of(*place, repeated=True)


def hash_request(request: AppendRequest, prepared: PreparedMessages) -> bytes:
    """Return the SHA-256 of all that an append asks for; its contents are hashed already."""
    described = [
        [_described(draft), message.values["sha256"].hex()]
        for draft, message in zip(request.messages, prepared.messages, strict=True)
    ]
    text = json.dumps([request.conversation_id, described], sort_keys=True)
    return hashlib.sha256(text.encode()).digest()


def remember(
    tx: Transaction,
    key: str,
    conversation: int,
    receipt: AppendReceipt,
    *,
    request_sha256: bytes,
    now: int,
) -> int:
    """Write down what an append with this key is answered, and purge some keys that have expired.

    Returns the bytes that this adds to what the organisation stores; they may be less than none.
    """
    purged = tx.execute(
        _SQL["purge_idempotency"], key=key, since=now - _LIFE, limit=_PURGED_AT_ONCE
    ).fetchall()
    tx.execute(
        _SQL["add_idempotency"],
        key=key,
        conversation=conversation,
        first_sequence=receipt.first_sequence,
        last_sequence=receipt.last_sequence,
        request_sha256=request_sha256,
        now=now,
    )
    return row_bytes(key) - sum(row_bytes(each) for (each,) in purged)


def receipt_of(
    conversation_id: ConversationId, first: int, last: int, *, repeated: bool = False
) -> AppendReceipt:
    """Return the receipt of the messages `first` to `last`, whose ids follow from their places."""
    return AppendReceipt(
        conversation_id=conversation_id,
        message_ids=tuple(
            message_id(conversation_id, sequence) for sequence in range(first, last + 1)
        ),
        first_sequence=first,
        last_sequence=last,
        repeated=repeated,
    )


def _described(draft: MessageDraft) -> list[object]:
    return [
        draft.role,
        draft.name,
        draft.tool_call_id,
        draft.tool_name,
        None if draft.occurred_at is None else to_microseconds(draft.occurred_at),
        draft.metadata,
    ]

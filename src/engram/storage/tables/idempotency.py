"""Answer a repeated append as the first one was answered, for a day."""

from __future__ import annotations

from datetime import timedelta

from engram import limits
from engram.model.conversation import AppendReceipt
from engram.model.ids import ConversationId, message_id
from engram.storage.tables.database import Connection
from engram.storage.tables.queries import load_queries
from engram.storage.tables.tenant import Tenant

_SQL = load_queries("messages.sql")

_LIFE = timedelta(hours=limits.IDEMPOTENCY_HOURS) // timedelta(microseconds=1)
_PURGED_AT_ONCE = 20


def find(connection: Connection, tenant: Tenant, key: str, *, now: int) -> AppendReceipt | None:
    """Return what the append with this key was answered, if it counts still."""
    row = tenant.execute(
        connection, _SQL["find_idempotency"], key=key, since=now - _LIFE
    ).fetchone()
    return None if row is None else receipt_of(*row, repeated=True)


def remember(
    connection: Connection,
    tenant: Tenant,
    key: str,
    conversation: int,
    receipt: AppendReceipt,
    *,
    now: int,
) -> None:
    """Write down what an append with this key is answered, and purge some keys that have expired."""
    tenant.execute(
        connection,
        _SQL["purge_idempotency"],
        key=key,
        since=now - _LIFE,
        limit=_PURGED_AT_ONCE,
    )
    tenant.execute(
        connection,
        _SQL["add_idempotency"],
        key=key,
        conversation=conversation,
        first_sequence=receipt.first_sequence,
        last_sequence=receipt.last_sequence,
        now=now,
    )


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

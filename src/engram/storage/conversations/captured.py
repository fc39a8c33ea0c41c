"""Rows about captured messages: which are stored, and which conversations were deleted since."""

from __future__ import annotations

import json
from collections.abc import Sequence

from engram.model.ids import ConversationId
from engram.storage.bookkeeping.row_hashes import CAPTURED_MESSAGE, FORGOTTEN_SESSION
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("conversations/captured.sql")


def is_forgotten(tx: Transaction, conversation_id: ConversationId) -> bool:
    """Return True if a conversation was deleted."""
    return tx.execute(_SQL["find_forgotten"], id=conversation_id).fetchone() is not None


def find_captured(tx: Transaction, conversation: int, identities: Sequence[str]) -> set[str]:
    """Return those of some identities whose messages a conversation has."""
    values = {"conversation": conversation, "identities": json.dumps(identities)}
    return {identity for (identity,) in tx.execute(_SQL["find_captured"], **values)}


def add_captured(
    tx: Transaction, conversation: int, identities: Sequence[str], *, first_sequence: int
) -> None:
    """Record the identities of messages that were just appended, in their order."""
    rows = [
        {"conversation": conversation, "identity": identity, "sequence": sequence}
        for sequence, identity in enumerate(identities, start=first_sequence)
    ]
    owner = tx.tenant.id
    tx.execute_many(
        _SQL["add_captured"],
        [{**row, "row_hash": CAPTURED_MESSAGE.hash(owner, row)} for row in rows],
    )


def forget_session(
    tx: Transaction, conversation_id: ConversationId, *, actor: str, now: int
) -> None:
    """Record that a conversation is deleted: it is neither captured nor imported again."""
    values = {"id": conversation_id, "forgotten_at": now, "actor": actor}
    row_hash = FORGOTTEN_SESSION.hash(tx.tenant.id, values)
    tx.execute(_SQL["add_forgotten"], **values, row_hash=row_hash)

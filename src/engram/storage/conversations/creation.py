"""Begin conversations."""

from __future__ import annotations

from collections.abc import Sequence

from engram.model.access import Quota
from engram.model.conversation import ConversationDraft
from engram.model.ids import ConversationId
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.numbering import take_numbers
from engram.storage.bookkeeping.stored_size import row_bytes
from engram.storage.content.messages import to_json
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("conversations/conversations.sql")


def create_conversation(
    tx: Transaction, draft: ConversationDraft, *, actor: str, quota: Quota, is_default: bool = False
) -> ConversationId:
    """Store an empty conversation with its tags, counter and audit row.

    Raises:
        QuotaExceededError: it does not fit the quota any more.
    """
    conversation_id = ConversationId(tx.tenant.ids.new("conv_"))
    now = tx.tenant.now()
    number = take_numbers(tx, "conversation", 1).start
    tx.execute(
        _SQL["create_conversation"],
        number=number,
        id=conversation_id,
        title=draft.title,
        agent_id=draft.agent_id,
        project=draft.project,
        metadata=to_json(draft.metadata),
        is_default=is_default,
        now=now,
    )
    add_tags(tx, number, draft.tags)
    grow_counters(tx, quota=quota, conversations=1, stored_bytes=_stored_bytes(draft))
    audit.record(tx, now=now, actor=actor, action="create_conversation", subject=conversation_id)
    return conversation_id


def _stored_bytes(draft: ConversationDraft) -> int:
    texts = (draft.title, draft.agent_id, draft.project, to_json(draft.metadata))
    return row_bytes(*texts) + sum(map(row_bytes, draft.tags))


def add_tags(tx: Transaction, number: int, tags: Sequence[str]) -> None:
    """Give tags to a conversation or record that has none."""
    rows = [
        {"conversation": number, "position": position, "tag": tag}
        for position, tag in enumerate(tags)
    ]
    tx.execute_many(_SQL["add_tag"], rows)

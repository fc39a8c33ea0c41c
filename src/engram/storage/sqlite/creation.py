"""Begin conversations."""

from __future__ import annotations

import sqlite3

from engram.model.conversation import ConversationDraft
from engram.model.ids import ConversationId
from engram.storage.sqlite import audit
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.rows import to_json
from engram.storage.sqlite.tenant import Tenant

_SQL = load_queries("conversations.sql")


def create_conversation(
    connection: sqlite3.Connection,
    tenant: Tenant,
    draft: ConversationDraft,
    *,
    actor: str,
    is_default: bool = False,
) -> ConversationId:
    """Store an empty conversation with its tags, counter and audit row."""
    conversation_id = ConversationId(tenant.ids.new("conv_"))
    now = tenant.now()
    row = tenant.execute(
        connection,
        _SQL["create_conversation"],
        id=conversation_id,
        title=draft.title,
        agent_id=draft.agent_id,
        project=draft.project,
        metadata=to_json(draft.metadata),
        is_default=is_default,
        now=now,
    ).fetchone()
    tags = [
        {"conversation": row[0], "position": position, "tag": tag}
        for position, tag in enumerate(draft.tags)
    ]
    tenant.execute_many(connection, _SQL["add_tag"], tags)
    tenant.execute(
        connection,
        _SQL["add_to_counters"],
        conversations=1,
        messages=0,
        content_bytes=0,
        chunks=0,
    )
    audit.record(
        connection,
        tenant,
        now=now,
        actor=actor,
        action="create_conversation",
        subject=conversation_id,
    )
    return conversation_id

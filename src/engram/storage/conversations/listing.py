"""List conversations under filters, in a stable order, with the true total."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import MappingProxyType

from engram.model.conversation import ConversationPage, ConversationQuery
from engram.storage.bookkeeping.counters import read_counters
from engram.storage.content.messages import read_conversations
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("conversations/conversations.sql")

_CONDITIONS = MappingProxyType(
    {
        "agent_id": "AND agent_id = :agent_id",
        "project": "AND project = :project",
        "tags": (
            "AND number IN (SELECT conversation FROM conversation_tag"
            " WHERE organization_id = :organization_id"
            " AND tag IN (SELECT value FROM json_each(:tags))"
            " GROUP BY conversation HAVING count(*) = json_array_length(:tags))"
        ),
    }
)

_ORDERS = MappingProxyType(
    {
        (sort, order): f"{sort} {order.upper()}, number {order.upper()}"
        for sort in ("created_at", "updated_at", "message_count")
        for order in ("asc", "desc")
    }
)


def list_conversations(tx: Transaction, query: ConversationQuery) -> ConversationPage:
    """Return one page of the conversations that meet every filter."""
    asked = {
        "agent_id": query.agent_id,
        "project": query.project,
        "tags": json.dumps(query.tags) if query.tags else None,
    }
    values = {name: value for name, value in asked.items() if value is not None}
    page, count = statements(values, sort=query.sort, order=query.order)
    rows = tx.execute(page, limit=query.limit, offset=query.offset, **values)
    found = read_conversations(tx, [row[0] for row in rows])
    total = tx.execute(count, **values).fetchone()[0] if values else read_counters(tx).conversations
    seen = query.offset + len(found)
    return ConversationPage(
        conversations=tuple(found.values()),
        total=total,
        next_offset=seen if found and seen < total else None,
    )


def statements(filters: Iterable[str], *, sort: str, order: str) -> tuple[str, str]:
    """Return what reads a page and what counts the whole, put together from fixed pieces."""
    conditions = " ".join(_CONDITIONS[name] for name in filters)
    page, count = (
        _SQL[name].replace("/*conditions*/", conditions)
        for name in ("list_conversations", "count_conversations")
    )
    return page.replace("/*order*/", _ORDERS[sort, order]), count

"""Read and list conversations, each message verified against its hash."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import accumulate
from types import MappingProxyType

from engram import limits
from engram.clock import from_microseconds
from engram.errors import InvalidRequestError
from engram.model.conversation import (
    ConversationPage,
    ConversationQuery,
    Message,
    MessagePage,
    MessageQuery,
)
from engram.model.ids import ConversationKey
from engram.model.memory import ProjectCounts
from engram.model.row_keys import message_key
from engram.model.value import replace
from engram.storage.bookkeeping.counters import read_counters
from engram.storage.content.messages import (
    message_rows,
    prove_messages,
    read_conversation_ids,
    read_conversations,
    read_message,
)
from engram.storage.conversations.records import find_readable
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction

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


class ConversationReader(TenantStore):
    """Read-only access to the conversations of an organisation."""

    async def get_conversation(self, query: MessageQuery) -> MessagePage:
        """Return a conversation and one page of its messages, in order of sequence.

        Raises:
            NotFoundError: there is no such conversation here.
            StoreCorruptError: a message's bytes do not match its hash.
        """

        def read(tx: Transaction) -> MessagePage:
            number = find_readable(tx, query.conversation_id)
            conversation = read_conversations(tx, [number])[number]
            total = conversation.message_count
            page = _fitting(tx, number, _page_of(query, total), query.around_sequence)
            messages = _read_range(tx, number, start=page.start, end=page.stop - 1)
            return MessagePage(
                conversation=conversation,
                messages=_from_character(messages, query.from_character),
                total=total,
                next_offset=page.stop - 1 if page.stop <= total else None,
                from_character=query.from_character,
                around_sequence=query.around_sequence,
            )

        return await self._tenant.read(read)

    async def count_projects(self) -> tuple[ProjectCounts, ...]:
        """Return the projects that have conversations, by name, without their memories."""
        rows = await self._tenant.read(lambda tx: tx.execute(_SQL["count_projects"]).fetchall())
        return tuple(
            ProjectCounts(
                project=project,
                conversations=conversations,
                messages=int(messages),
                last_used_at=from_microseconds(last_used_at),
            )
            for project, conversations, messages, last_used_at in rows
        )

    async def list_conversations(self, query: ConversationQuery) -> ConversationPage:
        """Return a page of conversations under all the query's filters.

        Ties are in the order in which they were created, or its reverse.
        """
        filters = {
            "agent_id": query.agent_id,
            "project": query.project,
            "tags": json.dumps(query.tags) if query.tags else None,
        }
        values = {name: value for name, value in filters.items() if value is not None}
        page, count = statements(values, sort=query.sort, order=query.order)

        def read(tx: Transaction) -> ConversationPage:
            rows = tx.execute(page, limit=query.limit, offset=query.offset, **values)
            found = read_conversations(tx, [row[0] for row in rows])
            if values:
                total = tx.execute(count, **values).fetchone()[0]
            else:
                total = read_counters(tx).conversations
            end = query.offset + len(found)
            return ConversationPage(
                conversations=tuple(found.values()),
                total=total,
                next_offset=end if found and end < total else None,
            )

        return await self._tenant.read(read)

    async def load_range(
        self, conversation: ConversationKey, *, start: int, end: int
    ) -> tuple[Message, ...]:
        """Return the messages `start` to `end` of a conversation, in order."""
        return await self._tenant.read(
            lambda tx: _read_range(tx, conversation, start=start, end=end)
        )


def _read_range(
    tx: Transaction, conversation: ConversationKey, *, start: int, end: int
) -> tuple[Message, ...]:
    ids = read_conversation_ids(tx, [conversation])
    start, end = max(start, 1), min(end, limits.CONVERSATION_MESSAGES_MAX)
    if conversation not in ids or start > end:
        return ()
    first, last = message_key(conversation, start), message_key(conversation, end)
    rows = list(message_rows(tx, first=first, last=last))
    prove_messages(tx, rows)
    return tuple(read_message(tx, row, conversation_id=ids[conversation]) for row in rows)


def _page_of(query: MessageQuery, total: int) -> range:
    """Return the sequences of the page that a query asks for."""
    if query.around_sequence is None:
        first = query.message_offset + 1
    elif query.around_sequence > total:
        raise InvalidRequestError(
            f"must be at most {total:,}, where the conversation ends", field="around_sequence"
        )
    elif query.from_character:
        first = query.around_sequence
    else:
        # Centred, but never cut short by an end of the conversation that a shift would fill.
        centred = query.around_sequence - query.message_limit // 2
        first = max(1, min(centred, total - query.message_limit + 1))
    return range(first, max(first, min(first + query.message_limit, total + 1)))


def _from_character(messages: tuple[Message, ...], start: int) -> tuple[Message, ...]:
    """Return the messages, the first without the characters before `start`."""
    if not start or not messages:
        return messages
    first, *others = messages
    if start > len(first.content):
        message = f"must be at most {len(first.content):,}, where the message ends"
        raise InvalidRequestError(message, field="from_character")
    return (replace(first, content=first.content[start:]), *others)


def _fitting(tx: Transaction, number: ConversationKey, page: range, centre: int | None) -> range:
    """Return the part of a page that fits in memory; the rest follows at `next_offset`."""
    if not page:
        return page
    first, last = message_key(number, page.start), message_key(number, page.stop - 1)
    sizes = [size for (size,) in tx.execute(_SQL["message_sizes"], first=first, last=last)]
    if sum(sizes) <= limits.PAGE_CHARACTERS_MAX:
        return page
    start = page.start if centre is None else centre
    totals = accumulate(sizes[start - page.start :])
    fitting = sum(total <= limits.PAGE_CHARACTERS_MAX for total in totals)
    return range(start, start + max(1, fitting))


def statements(filters: Iterable[str], *, sort: str, order: str) -> tuple[str, str]:
    """Return the statements that read a page and count all, assembled from fixed pieces."""
    conditions = " ".join(_CONDITIONS[name] for name in filters)
    page, count = (
        _SQL[name].replace("/*conditions*/", conditions)
        for name in ("list_conversations", "count_conversations")
    )
    return page.replace("/*order*/", _ORDERS[sort, order]), count

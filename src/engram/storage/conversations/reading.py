"""Read conversations and messages, each message proved against its hash."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.conversation import Message, MessagePage, MessageQuery
from engram.model.ids import ConversationId, ConversationKey
from engram.model.row_keys import message_key
from engram.storage.content.messages import (
    message_rows,
    read_conversation_ids,
    read_conversations,
    read_message,
)
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_CONVERSATIONS = load_queries("conversations/conversations.sql")
_MESSAGES = load_queries("conversations/messages.sql")


def get_conversation(tx: Transaction, query: MessageQuery) -> MessagePage:
    """Return a conversation and one page of its messages."""
    number = find_number(tx, query.conversation_id)
    conversation = read_conversations(tx, [number])[number]
    total = conversation.message_count
    page = _fitting(tx, number, _page_of(query, total), query.around_sequence)
    return MessagePage(
        conversation=conversation,
        messages=load_range(tx, number, start=page.start, end=page.stop - 1),
        total=total,
        next_offset=page.stop - 1 if page.stop <= total else None,
    )


def find_number(tx: Transaction, conversation_id: ConversationId) -> ConversationKey:
    """Return a conversation's number.

    Raises:
        NotFoundError: there is no such conversation here.
    """
    row = tx.execute(_CONVERSATIONS["find_conversation"], id=conversation_id).fetchone()
    if row is None:
        raise NotFoundError("conversation", conversation_id)
    return ConversationKey(row[0])


def load_range(
    tx: Transaction, conversation: ConversationKey, *, start: int, end: int
) -> tuple[Message, ...]:
    """Return the messages `start` to `end` of a conversation, in order."""
    ids = read_conversation_ids(tx, [conversation])
    start, end = max(start, 1), min(end, limits.CONVERSATION_MESSAGES_MAX)
    if conversation not in ids or start > end:
        return ()
    rows = message_rows(
        tx, first=message_key(conversation, start), last=message_key(conversation, end)
    )
    return tuple(read_message(tx, row, conversation_id=ids[conversation]) for row in rows)


def _page_of(query: MessageQuery, total: int) -> range:
    """Return the sequences of the page that a query asks for."""
    if query.around_sequence is None:
        first = query.message_offset + 1
    elif query.around_sequence > total:
        raise InvalidRequestError(
            f"must be at most {total:,}, where the conversation ends", field="around_sequence"
        )
    else:
        # Centred, but never cut short by an end of the conversation that a shift would fill.
        centred = query.around_sequence - query.message_limit // 2
        first = max(1, min(centred, total - query.message_limit + 1))
    return range(first, max(first, min(first + query.message_limit, total + 1)))


def _fitting(tx: Transaction, number: ConversationKey, page: range, centre: int | None) -> range:
    """Return what of a page fits into memory; the rest follows at `next_offset`."""
    if not page:
        return page
    sizes = [
        row[0]
        for row in tx.execute(
            _MESSAGES["message_sizes"],
            first=message_key(number, page.start),
            last=message_key(number, page.stop - 1),
        )
    ]
    if sum(sizes) <= limits.PAGE_CHARACTERS_MAX:
        return page
    first = page.start if centre is None else centre
    return range(first, first + _fitting_count(sizes[first - page.start :]))


def _fitting_count(sizes: Sequence[int]) -> int:
    fitting = sum(total <= limits.PAGE_CHARACTERS_MAX for total in accumulate(sizes))
    return max(1, fitting)

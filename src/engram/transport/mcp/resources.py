"""Conversations as MCP resources: a listing, and a transcript of bounded length."""

from __future__ import annotations

from engram import limits
from engram.clock import format_time
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.access import Principal
from engram.model.conversation import (
    Conversation,
    ConversationPage,
    ConversationQuery,
    Message,
    MessagePage,
    MessageQuery,
)
from engram.model.ids import ConversationId
from engram.service import Service

URI_PREFIX = "engram://conversations/"
URI_TEMPLATE = URI_PREFIX + "{id}"


async def list_page(
    service: Service, principal: Principal, *, cursor: str | None
) -> ConversationPage:
    """Return the most recent conversations; `cursor` is where the last page ended.

    Raises:
        InvalidRequestError: the cursor is none of ours.
    """
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal()):
        raise InvalidRequestError("is not a cursor of this server", field="cursor")
    query = ConversationQuery(limit=limits.RESOURCES_PAGE, offset=int(cursor or 0))
    return await service.conversations.list_conversations(principal, query)


async def read_transcript(service: Service, principal: Principal, *, uri: str) -> str:
    """Return the conversation that `uri` names as text, and where to read on when it is long.

    Raises:
        NotFoundError: there is no such resource here.
    """
    identifier = uri.removeprefix(URI_PREFIX)
    if identifier == uri or not identifier:
        raise NotFoundError("resource", uri)
    query = MessageQuery(conversation_id=ConversationId(identifier))
    page = await service.conversations.get_conversation(principal, query)
    return transcript(page, characters_max=limits.TRANSCRIPT_CHARACTERS_MAX)


def transcript(page: MessagePage, *, characters_max: int) -> str:
    """Return the first page of a conversation as text; say what is missing and how to read it."""
    parts, left = [heading(page.conversation)], characters_max
    shown = 0
    for message in page.messages:
        line = _line(message)
        left -= len(line)
        if left < 0:
            break
        parts.append(line)
        shown += 1
    if page.messages and not shown:
        parts += [_line(page.messages[0])[:characters_max], "(this message is cut here)"]
    if shown < page.total:
        parts.append(_continuation(page, shown))
    return "\n\n".join(parts)


def heading(conversation: Conversation) -> str:
    """Return one line that says which conversation this is."""
    return (
        f"# {conversation.title or conversation.id} ({conversation.id},"
        f" {conversation.message_count} messages, updated {format_time(conversation.updated_at)})"
    )


def _line(message: Message) -> str:
    speaker = f"{message.name} ({message.role})" if message.name else message.role
    return f"[{message.sequence}] {speaker}: {message.content}"


def _continuation(page: MessagePage, offset: int) -> str:
    call = f'get_conversation(conversation_id="{page.conversation.id}", message_offset={offset})'
    return f"({page.total - offset} of {page.total} messages are not shown: read on with {call})"

"""Operations on conversations and messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from engram import limits
from engram.api.lean import (
    CHARACTERS_PER_TOKEN_MAX,
    LeanText,
    date_of,
    list_text,
    message_label,
    said_at,
    short_title,
)
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal
from engram.model.capture import CaptureReceipt, CaptureRequest
from engram.model.conversation import (
    AppendReceipt,
    AppendRequest,
    Conversation,
    ConversationChange,
    ConversationDraft,
    ConversationPage,
    ConversationQuery,
    DeletionReceipt,
    Message,
    MessagePage,
    MessageQuery,
)
from engram.model.ids import ConversationId
from engram.model.request import Request
from engram.model.trash import Undo
from engram.model.value import Value
from engram.text.quoting import quote_after
from engram.text.tokens import count_tokens

if TYPE_CHECKING:
    from engram.service import Service

TOOLSET = "conversations"


class ConversationReference(Request):
    """Names one conversation."""

    conversation_id: ConversationId


class ConversationDeletion(ConversationReference):
    """The conversation to delete."""

    undo: Undo = False


class ConversationCreated(Value):
    """The id of a new conversation."""

    conversation_id: ConversationId


class OneConversationChange(ConversationChange):
    """Changes to one conversation."""

    conversation_id: ConversationId


class ConversationEdited(Value):
    """What was changed of a conversation; a key that may not read it learns nothing else."""

    conversation_id: ConversationId
    edited: tuple[str, ...]
    updated_at: datetime


async def edit_conversation(
    service: Service, principal: Principal, request: OneConversationChange
) -> ConversationEdited:
    conversation_id = request.conversation_id
    edited = await service.conversations.edit_conversation(principal, conversation_id, request)
    return ConversationEdited(
        conversation_id=conversation_id,
        edited=tuple(sorted(request.given)),
        updated_at=edited.updated_at,
    )


async def create_conversation(
    service: Service, principal: Principal, request: ConversationDraft
) -> ConversationCreated:
    created = await service.conversations.create_conversation(principal, request)
    return ConversationCreated(conversation_id=created)


def conversation_text(page: MessagePage, token_budget: int) -> str:
    """Return a page of a conversation in order of sequence, as much as fits.

    Of a page around a message, that message and those nearest to it are shown. A message that is
    too long is cut, and the last line says from where to go on.
    """
    text = LeanText(token_budget)
    head = f"{_conversation_head(page.conversation)}, {page.total} messages"
    if not page.messages:
        text.add(head)
        return text.finish(["none from this offset on" if page.total else "empty"])
    days = {date_of(said_at(message)) for message in page.messages}
    labels = [_label(page, message, with_date=len(days) > 1) for message in page.messages]
    if len(days) == 1:
        head = f"{head}, {days.pop()}"
    shown = _nearest(page, labels, text.left - count_tokens(head) - 1)
    if not shown:
        return text.finish(_add_cut(text, page, labels[_centre(page)], head))
    text.add(head)
    for place in shown:
        text.add(labels[place], page.messages[place].content)
    return text.finish(_page_notes(page, shown))


def _label(page: MessagePage, message: Message, *, with_date: bool) -> str:
    label = message_label(message, with_date=with_date)
    if not page.from_character or message is not page.messages[0]:
        return label
    return f"{label[:-1]}, from character {page.from_character}:"


def _centre(page: MessagePage) -> int:
    """Return the place in a page of the message that must be shown."""
    if page.around_sequence is None:
        return 0
    return page.around_sequence - page.messages[0].sequence


def _nearest(page: MessagePage, labels: Sequence[str], room: int) -> range:
    """Return the places of the messages that fit around the centre; empty if not even that fits."""

    def cost(place: int) -> int:
        """Return the tokens of a line, or more than there are if it is surely too long or absent."""
        if not 0 <= place < len(labels):
            return room + 1
        content = page.messages[place].content
        if len(content) > room * CHARACTERS_PER_TOKEN_MAX:
            return room + 1
        return count_tokens(quote_after(labels[place], content)) + 1

    centre = _centre(page)
    start = stop = centre
    places = deque([centre])
    while places:
        place = places.popleft()
        if (tokens := cost(place)) <= room:
            room -= tokens
            start, stop = min(start, place), max(stop, place + 1)
            # Later ones take turns with earlier ones; a side ends where one does not fit.
            places += [place + 1] if place > centre else [place - 1]
            if place == centre:
                places.append(place + 1)
    return range(start, stop)


def _add_cut(text: LeanText, page: MessagePage, label: str, head: str) -> list[str]:
    """Add the beginning of the message in the centre; return how to go on."""
    message = page.messages[_centre(page)]
    shown = text.add_beginning(label, message.content, head=head)
    if not shown:
        return [f"#{message.sequence} does not fit: raise token_budget"]
    start = page.from_character if message is page.messages[0] else 0
    where = f"around_sequence={message.sequence}, from_character={start + shown}"
    return [f"token_budget reached; go on with {where}"]


def _page_notes(page: MessagePage, shown: range) -> list[str]:
    """Return which bound cut a page, and where to go on."""
    is_cut = len(shown) < len(page.messages)
    following = page.messages[shown[-1]].sequence
    notes = ["token_budget reached" if is_cut else "end of this page"]
    if shown[0]:
        notes.append(f"earlier: around_sequence={page.messages[shown[0]].sequence - 1}")
    if following < page.total:
        notes.append(f"go on with message_offset={following}")
    return notes if len(notes) > 1 else []


def conversations_text(page: ConversationPage, token_budget: int) -> str:
    """Return a page of conversations, a line each."""
    lines = [
        f"{_conversation_head(each)}, {each.message_count} messages, {date_of(each.updated_at)}"
        for each in page.conversations
    ]
    return list_text(lines, page.total, page.next_offset, token_budget, noun="conversations")


def _conversation_head(conversation: Conversation) -> str:
    return f"{conversation.id} {short_title(conversation.title or 'untitled')}"


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="append_messages",
        description="Keep messages verbatim: durable and searchable when this returns.",
        request=AppendRequest,
        answer=AppendReceipt,
        run=lambda service, me, request: service.conversations.append_messages(me, request),
        scopes=("write",),
        toolset=TOOLSET,
        body_bytes_max=limits.BODY_BYTES_MAX,
        tool=Tool(title="Keep messages"),
        routes=(
            Route(method="POST", path="/api/v1/conversations/{conversation_id}/messages"),
            Route(
                method="POST",
                path="/api/v1/messages",
                name="append_messages_to_default",
                description="Keep messages in the organisation's default conversation, unless the"
                " body names another.",
            ),
        ),
    ),
    Operation(
        name="capture_session",
        description="Keep those messages of another program's session that are not here yet.",
        request=CaptureRequest,
        answer=CaptureReceipt,
        run=lambda service, me, request: service.conversations.capture_session(me, request),
        scopes=("write",),
        toolset=TOOLSET,
        body_bytes_max=limits.BODY_BYTES_MAX,
        routes=(Route(method="POST", path="/api/v1/capture"),),
    ),
    Operation(
        name="create_conversation",
        description="Begin a conversation of its own, to append messages to.",
        request=ConversationDraft,
        answer=ConversationCreated,
        run=create_conversation,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Begin conversation"),
        routes=(Route(method="POST", path="/api/v1/conversations", status=201),),
        command=Command(words=("conversations", "create")),
    ),
    Operation(
        name="get_conversation",
        description="Read messages in order, a page at a time.",
        request=MessageQuery,
        answer=MessagePage,
        run=lambda service, me, request: service.conversations.get_conversation(me, request),
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Read conversation", hints=("reads",), lean=conversation_text),
        routes=(Route(method="GET", path="/api/v1/conversations/{conversation_id}"),),
        command=Command(
            words=("conversations", "show"),
            arguments=("conversation_id",),
            hidden=("from_character",),
        ),
    ),
    Operation(
        name="list_conversations",
        description="List conversations, last used first.",
        request=ConversationQuery,
        answer=ConversationPage,
        run=lambda service, me, request: service.conversations.list_conversations(me, request),
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="List conversations", hints=("reads",), lean=conversations_text),
        routes=(Route(method="GET", path="/api/v1/conversations"),),
        command=Command(words=("conversations", "list")),
    ),
    Operation(
        name="edit_conversation",
        description="Rename a conversation, change its tags or metadata, or move it to another"
        " project. What is left out stays.",
        request=OneConversationChange,
        answer=ConversationEdited,
        run=edit_conversation,
        scopes=("write",),
        toolset=TOOLSET,
        # Rarely an agent's business: it is not worth its tokens in every list of tools.
        tool=Tool(title="Edit conversation", hints=("repeatable",), is_listed=False),
        routes=(Route(method="PATCH", path="/api/v1/conversations/{conversation_id}"),),
        command=Command(
            words=("conversations", "edit"),
            arguments=("conversation_id",),
            removable=("title", "tags"),
            help={"tags": "Its tags from now on.", "project": "Move it to this project."},
        ),
    ),
    Operation(
        name="delete_conversation",
        description="Delete a conversation for good, if the user asks.",
        request=ConversationDeletion,
        answer=DeletionReceipt,
        run=lambda service, me, request: service.conversations.delete_conversation(
            me, request.conversation_id, undo=request.undo
        ),
        scopes=("delete",),
        toolset=TOOLSET,
        tool=Tool(title="Delete conversation", hints=("destroys", "repeatable")),
        routes=(Route(method="DELETE", path="/api/v1/conversations/{conversation_id}"),),
        command=Command(
            words=("conversations", "delete"),
            arguments=("conversation_id",),
            question="Delete the conversation {conversation_id} for good?",
            is_undoable=True,
        ),
    ),
)

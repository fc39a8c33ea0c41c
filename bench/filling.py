"""Organisations filled with chat, through the service that a server would use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from bench.texts import chat
from engram.limits import MESSAGES_PER_CALL_MAX
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.document import DocumentDraft
from engram.service import Service

Item = TypeVar("Item")

CONVERSATION_CHUNKS = 100
CONVERSATION_MESSAGES = 302
"""So many messages have exactly so many windows of 5 with stride 3."""

CHAT_MESSAGES = 100
"""Messages of a conversation where the number of windows does not matter."""

_PARTS, _PART_MESSAGES = 40, 7_000
"""Of a document: 40 MB."""


async def new_organization(service: Service) -> Principal:
    """Return the credential of a new organisation."""
    made, _ = await service.operator.create_organization(OrganizationDraft(name="bench"))
    return await service.operator.act_for(made.id)


async def fill_organization(service: Service, *, chunks: int) -> Principal:
    """Return the credential of a new organisation that holds so many chunks."""
    principal = await new_organization(service)
    conversations = chunks // CONVERSATION_CHUNKS
    texts = chat(conversations * CONVERSATION_MESSAGES)
    for _ in range(conversations):
        await append_chat(service, principal, list(islice(texts, CONVERSATION_MESSAGES)))
    return principal


async def fill_messages(service: Service, principal: Principal, *, messages: int) -> None:
    """Append so many messages in conversations of `CHAT_MESSAGES`."""
    texts = chat(messages)
    while some := list(islice(texts, CHAT_MESSAGES)):
        await append_chat(service, principal, some)


async def append_chat(service: Service, principal: Principal, texts: Iterable[str]) -> None:
    """Append texts as one new conversation."""
    draft = ConversationDraft(title="Bench")
    conversation_id = await service.conversations.create_conversation(principal, draft)
    for messages in in_batches(drafts_of(texts), MESSAGES_PER_CALL_MAX):
        request = AppendRequest(conversation_id=conversation_id, messages=messages)
        await service.conversations.append_messages(principal, request)


async def fill_documents(service: Service, principal: Principal, *, documents: int) -> None:
    """Store so many texts of 40 MB each."""
    text = "\n".join(chat(_PART_MESSAGES)).encode()
    for number in range(documents):
        await service.documents.store_stream(principal, DocumentDraft(), _body(number, text))


async def _body(number: int, text: bytes) -> AsyncIterator[bytes]:
    """Yield the parts of a text that is no other document's."""
    for part in range(_PARTS):
        yield f"Document {number}, part {part}\n".encode() + text


def drafts_of(texts: Iterable[str]) -> Iterator[MessageDraft]:
    """Yield texts as messages of two who take turns."""
    for number, text in enumerate(texts):
        yield MessageDraft(role="assistant" if number % 2 else "user", content=text)


def in_batches(items: Iterator[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yield `size` at a time."""
    while batch := tuple(islice(items, size)):
        yield batch

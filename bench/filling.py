"""Organisations filled with chat, through the service that a server would use."""

from __future__ import annotations

from itertools import islice

from bench.texts import chat
from engram.limits import MESSAGES_PER_CALL_MAX
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.service import Service

CONVERSATION_CHUNKS = 100
CONVERSATION_MESSAGES = 302
"""So many messages have exactly so many windows of 5 with stride 3."""


async def fill_organization(service: Service, *, chunks: int) -> Principal:
    """Return the credential of a new organisation that holds so many chunks."""
    made, _ = await service.operator.create_organization(OrganizationDraft(name="bench"))
    principal = await service.operator.act_for(made.id)
    conversations = chunks // CONVERSATION_CHUNKS
    texts = chat(conversations * CONVERSATION_MESSAGES)
    for _ in range(conversations):
        await _fill_conversation(service, principal, list(islice(texts, CONVERSATION_MESSAGES)))
    return principal


async def _fill_conversation(service: Service, principal: Principal, texts: list[str]) -> None:
    draft = ConversationDraft(title="Bench")
    conversation_id = await service.conversations.create_conversation(principal, draft)
    for start in range(0, len(texts), MESSAGES_PER_CALL_MAX):
        messages = tuple(
            MessageDraft(role="assistant" if number % 2 else "user", content=text)
            for number, text in enumerate(texts[start : start + MESSAGES_PER_CALL_MAX])
        )
        request = AppendRequest(conversation_id=conversation_id, messages=messages)
        await service.conversations.append_messages(principal, request)

"""One caller that stores texts and fetches contexts."""

from __future__ import annotations

from typing import Any

from engram.model.access import Principal
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft
from engram.model.recall import Context, ContextRequest
from engram.service import Service


class House:
    """One caller of one service."""

    def __init__(self, service: Service, principal: Principal) -> None:
        self.service = service
        self.principal = principal

    async def keep(self, content: str, **fields: Any) -> MemoryId:
        draft = MemoryDraft(content=content, **fields)
        (stored,) = (await self.service.memories.store(self.principal, draft)).memories
        return stored.id

    async def say(self, *contents: str, project: str = "default") -> None:
        conversations = self.service.conversations
        draft = ConversationDraft(title="Work", project=project)
        conversation_id = await conversations.create_conversation(self.principal, draft)
        messages = tuple(MessageDraft(role="user", content=content) for content in contents)
        request = AppendRequest(conversation_id=conversation_id, messages=messages)
        await conversations.append_messages(self.principal, request)

    async def fetch(self, query: str | None = None, **given: Any) -> Context:
        request = ContextRequest(query=query, **given)
        return await self.service.search.fetch_context(self.principal, request)

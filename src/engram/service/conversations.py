"""Use cases of conversations: create, append, read, list, delete."""

from __future__ import annotations

from engram.model.access import Principal
from engram.model.conversation import (
    AppendReceipt,
    AppendRequest,
    ConversationDraft,
    ConversationPage,
    ConversationQuery,
    DeletionReceipt,
    MessagePage,
    MessageQuery,
    is_called_by_title,
)
from engram.model.ids import ConversationId
from engram.model.value import replace
from engram.service.access.usage import find_quota_warning
from engram.service.use_case import UseCases


class Conversations(UseCases):
    """The use cases of the `conversations` toolset, search apart."""

    async def create_conversation(
        self, principal: Principal, draft: ConversationDraft
    ) -> ConversationId:
        """Begin a conversation and return its id."""
        store = await self._open(principal, "write")
        return await store.create_conversation(draft, actor=principal.actor, quota=principal.quota)

    async def append_messages(self, principal: Principal, request: AppendRequest) -> AppendReceipt:
        """Keep messages verbatim; they are durable and findable when this returns."""
        with self._tools.activity.answering():
            store = await self._open(principal, "write")
            title = None
            if any(map(is_called_by_title, request.messages)):
                title = await store.find_title(request.conversation_id)
            receipt = await store.append_messages(
                request,
                actor=principal.actor,
                quota=principal.quota,
                indexing=await self._tools.indexer.index_new(
                    request.messages,
                    kind="conversation",
                    title=title,
                    organization_id=store.organization_id,
                ),
                title=title,
            )
        self._tools.background.announce_work(principal.organization_id)
        if not receipt.repeated:
            self._tools.activity.messages_appended += len(receipt.message_ids)
        return replace(receipt, quota_warning=await find_quota_warning(principal, store))

    async def get_conversation(self, principal: Principal, query: MessageQuery) -> MessagePage:
        """Return one page of a conversation."""
        store = await self._open(principal, "read")
        return await store.get_conversation(query)

    async def list_conversations(
        self, principal: Principal, query: ConversationQuery
    ) -> ConversationPage:
        """Return one page of the organisation's conversations."""
        store = await self._open(principal, "read")
        return await store.list_conversations(query)

    async def delete_conversation(
        self, principal: Principal, conversation_id: ConversationId
    ) -> DeletionReceipt:
        """Remove a conversation with everything derived from it."""
        store = await self._open(principal, "delete")
        return await store.delete_conversation(conversation_id, actor=principal.actor)

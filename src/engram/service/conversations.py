"""Keeping conversations: create, append, read, list, delete."""

from __future__ import annotations

from dataclasses import replace

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
from engram.model.vectors import Indexing
from engram.service.activity import Activity
from engram.service.background import Background
from engram.service.indexing import Indexer
from engram.service.quota import find_quota_warning
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store


class Conversations:
    """The use cases of the `conversations` toolset, search apart."""

    def __init__(
        self, store: Store, *, indexer: Indexer, background: Background, activity: Activity
    ) -> None:
        self._store = store
        self._indexer = indexer
        self._background = background
        self._activity = activity

    async def create_conversation(
        self, principal: Principal, draft: ConversationDraft
    ) -> ConversationId:
        """Begin a conversation and return its id."""
        principal.require("write")
        store = await self._store.organization(principal.organization_id)
        return await store.create_conversation(draft, actor=principal.actor, quota=principal.quota)

    async def append_messages(self, principal: Principal, request: AppendRequest) -> AppendReceipt:
        """Keep messages verbatim; they are durable and findable when this returns."""
        principal.require("write")
        with self._activity.answering():
            store = await self._store.organization(principal.organization_id)
            receipt = await store.append_messages(
                request,
                actor=principal.actor,
                quota=principal.quota,
                indexing=await self._index(store, request),
            )
        self._background.notice(principal.organization_id)
        if not receipt.repeated:
            self._activity.messages_appended += len(receipt.message_ids)
        return replace(receipt, quota_warning=await find_quota_warning(principal, store))

    async def get_conversation(self, principal: Principal, query: MessageQuery) -> MessagePage:
        """Return one page of a conversation."""
        principal.require("read")
        store = await self._store.organization(principal.organization_id)
        return await store.get_conversation(query)

    async def list_conversations(
        self, principal: Principal, query: ConversationQuery
    ) -> ConversationPage:
        """Return one page of the organisation's conversations."""
        principal.require("read")
        store = await self._store.organization(principal.organization_id)
        return await store.list_conversations(query)

    async def delete_conversation(
        self, principal: Principal, conversation_id: ConversationId
    ) -> DeletionReceipt:
        """Remove a conversation with everything derived from it."""
        principal.require("delete")
        store = await self._store.organization(principal.organization_id)
        return await store.delete_conversation(conversation_id, actor=principal.actor)

    async def _index(self, store: OrganizationStore, request: AppendRequest) -> Indexing:
        """Return what is stored of the messages' meaning; documents have their title before them."""
        title = None
        if any(map(is_called_by_title, request.messages)):
            title = await store.find_title(request.conversation_id)
        return await self._indexer.index_new(
            request.messages, title=title, organization_id=store.organization_id
        )

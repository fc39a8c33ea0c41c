"""Use cases of conversations: create, append, read, list, edit, delete."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from engram import limits
from engram.errors import ConflictError, NotFoundError
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
    MessageDraft,
    MessagePage,
    MessageQuery,
    is_called_by_title,
)
from engram.model.ids import ConversationId
from engram.model.trash import TrashEntry
from engram.model.value import replace
from engram.service import UseCases
from engram.service.access.usage import find_quota_warning
from engram.storage.organization import OrganizationStore


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
        async with self._appending(principal) as store:
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
            self._count(principal, len(receipt.message_ids))
        return replace(receipt, quota_warning=await find_quota_warning(principal, store))

    async def capture_session(
        self, principal: Principal, request: CaptureRequest
    ) -> CaptureReceipt:
        """Keep those messages of a program's session that are not here yet.

        The conversation's id follows from the source and the session, and a message is known by its
        source's own id: captured again, by whatever process, nothing is stored twice. Nothing is
        stored of a session whose conversation was deleted.

        Raises:
            ConflictError: others kept storing the same messages.
        """
        sent = len(request.messages)
        for _ in range(limits.CAPTURE_ATTEMPTS_MAX):
            store = await self._open(principal, "write")
            left = await store.find_uncaptured(request)
            fresh = left.messages
            if fresh and not await self._capture(principal, replace(request, messages=fresh)):
                continue
            if fresh:
                self._tools.background.announce_work(principal.organization_id)
            self._count(principal, len(fresh))
            return CaptureReceipt(
                conversation_id=left.conversation_id,
                stored=len(fresh),
                known=0 if left.is_forgotten else sent - len(fresh),
                forgotten=sent if left.is_forgotten else 0,
                quota_warning=await find_quota_warning(principal, store),
            )
        raise ConflictError("other processes keep capturing this session; try again")

    def _count(self, principal: Principal, messages: int) -> None:
        self._tools.activity.messages_appended += messages
        if messages:
            self._tools.meter.count(principal.organization_id, messages=messages)

    async def _capture(self, principal: Principal, request: CaptureRequest) -> bool:
        async with self._appending(principal) as store:
            return await store.capture_messages(
                request,
                actor=principal.actor,
                quota=principal.quota,
                indexing=await self._tools.indexer.index_new(
                    request.messages,
                    kind="conversation",
                    organization_id=store.organization_id,
                ),
            )

    @asynccontextmanager
    async def _appending(self, principal: Principal) -> AsyncGenerator[OrganizationStore]:
        """Yield the caller's store for one append, in its turn beside searches."""
        with self._tools.activity.answering():
            store = await self._open(principal, "write")
            async with self._tools.alternation.turn(principal.organization_id, "append"):
                yield store

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

    async def edit_conversation(
        self, principal: Principal, conversation_id: ConversationId, change: ConversationChange
    ) -> Conversation:
        """Change what a conversation is called, tagged and filed under; its messages stay.

        Documents that are found by its title are found by the new one when this returns.

        Raises:
            ConflictError: others kept appending documents to it.
        """
        given = change.given
        for _ in range(limits.EDIT_ATTEMPTS_MAX):
            store = await self._open(principal, "write")
            titled = await store.find_titled(conversation_id) if "title" in given else ()
            edited = await store.edit_conversation(
                conversation_id,
                change,
                actor=principal.actor,
                quota=principal.quota,
                titled=titled,
                indexing=await self._tools.indexer.index_new(
                    [MessageDraft(role=each.role, content=each.content) for each in titled],
                    kind="conversation",
                    title=given.get("title"),
                    organization_id=store.organization_id,
                ),
            )
            if edited is not None:
                if titled:
                    self._tools.background.announce_work(principal.organization_id)
                return edited
        raise ConflictError("other processes keep appending to this conversation; try again")

    async def delete_conversation(
        self, principal: Principal, conversation_id: ConversationId, *, undo: bool = False
    ) -> DeletionReceipt:
        """Remove a conversation with everything derived from it, or with `undo` move it to the trash.

        One that is in the trash is removed from there.
        """
        store = await self._open(principal, "delete")
        actor = principal.actor
        if undo:
            return await store.trash.trash_conversation(
                conversation_id, actor=actor, keep=self._tools.trash_stay
            )
        try:
            receipt = await store.delete_conversation(conversation_id, actor=actor)
        except NotFoundError as exc:
            entry, purged = await _purge(store, conversation_id, actor=actor, otherwise=exc)
            return DeletionReceipt(messages=entry.messages, chunks=0, vectors=0, receipt=purged)
        if receipt.messages > limits.MESSAGES_REMOVED_AT_ONCE:
            self._tools.background.announce_work(principal.organization_id, "erasing")
        return receipt


async def _purge(
    store: OrganizationStore,
    conversation_id: ConversationId,
    *,
    actor: str,
    otherwise: NotFoundError,
) -> tuple[TrashEntry, str]:
    """Remove a conversation from the trash, or raise `otherwise` if it is not there."""
    try:
        return await store.trash.purge(conversation_id, actor=actor)
    except NotFoundError:
        raise otherwise from None

"""Append the messages of a source's session that are not stored yet.

Every captured message has a row with its identity, written in the transaction that appends it. Writers of
an organisation are serialised, so no two processes store a message twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import NotFoundError
from engram.model.access import Quota
from engram.model.capture import (
    CapturedDraft,
    CaptureRequest,
    message_identity,
    session_conversation,
)
from engram.model.conversation import AppendRequest
from engram.model.ids import ConversationId
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.content import compression
from engram.storage.content.messages import prepare_messages
from engram.storage.conversations.captured import add_captured, find_captured, is_forgotten
from engram.storage.conversations.records import find_conversation
from engram.storage.conversations.writing import Append, add_conversation, append_prepared
from engram.storage.tenant import TenantStore, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncaptured:
    """What is left to store of a session."""

    conversation_id: ConversationId
    messages: tuple[CapturedDraft, ...] = ()
    is_forgotten: bool = False
    """Whether the conversation was deleted; nothing of it is stored again."""


class SessionCapture(TenantStore):
    """Captures sessions of other programs."""

    async def find_uncaptured(self, request: CaptureRequest) -> Uncaptured:
        """Return the messages of a request that are not stored yet, in their order."""
        return await self._tenant.read(lambda tx: _find_uncaptured(tx, request))

    async def capture_messages(
        self,
        request: CaptureRequest,
        *,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
    ) -> bool:
        """Append messages as `append_messages` does, and create the conversation if it is missing.

        Returns False, and stores nothing, if any of them is stored already or named twice, or the
        conversation was deleted: ask `find_uncaptured` again.

        Raises:
            QuotaExceededError: the messages exceed the quota.
            LimitExceededError: the conversation would pass `CONVERSATION_MESSAGES_MAX`.
            InvalidVectorError: a vector has other dimensions than its identity says.
        """
        tenant = self._tenant
        await compression.learn_awaited(tenant)
        target = session_conversation(tenant.id, source=request.source, session=request.session)
        append = Append(
            request=AppendRequest(messages=request.messages, conversation_id=target),
            prepared=await prepare_messages(request.messages, tenant.codec),
            actor=actor,
            quota=quota,
            indexing=indexing,
        )
        return await tenant.write(lambda tx: _capture(tx, request, append))


def _find_uncaptured(tx: Transaction, request: CaptureRequest) -> Uncaptured:
    source, session = request.source, request.session
    conversation_id = session_conversation(tx.tenant.id, source=source, session=session)
    if is_forgotten(tx, conversation_id):
        return Uncaptured(conversation_id=conversation_id, is_forgotten=True)
    messages = _by_identity(request)
    try:
        number = find_conversation(tx, conversation_id).stretch.conversation
    except NotFoundError:
        known = set[str]()
    else:
        known = find_captured(tx, number, list(messages))
    fresh = tuple(each for identity, each in messages.items() if identity not in known)
    return Uncaptured(conversation_id=conversation_id, messages=fresh)


def _capture(tx: Transaction, request: CaptureRequest, append: Append) -> bool:
    left = _find_uncaptured(tx, request)
    if len(left.messages) < len(request.messages):
        return False
    conversation_id = left.conversation_id
    try:
        stretch = find_conversation(tx, conversation_id).stretch
    except NotFoundError:
        add_conversation(
            tx,
            request.conversation,
            actor=append.actor,
            quota=append.quota,
            conversation_id=conversation_id,
        )
        stretch = find_conversation(tx, conversation_id).stretch
    receipt = append_prepared(tx, append)
    add_captured(
        tx, stretch.conversation, list(_by_identity(request)), first_sequence=receipt.first_sequence
    )
    return True


def _by_identity(request: CaptureRequest) -> dict[str, CapturedDraft]:
    """Return the messages by what identifies them, the first of each in their order."""
    found = dict[str, CapturedDraft]()
    for message in request.messages:
        found.setdefault(message_identity(message.original_id), message)
    return found

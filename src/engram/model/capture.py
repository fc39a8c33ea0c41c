"""Capture of a source's session: what is sent, and the identity of a message.

A message is identified by its source, its session and the source's own id of it. The conversation's id is
derived from the first two, so every process that captures a session means the same conversation.
"""

from __future__ import annotations

from typing import Annotated

from engram import limits
from engram.errors import RequestTooLargeError
from engram.model.access import QuotaWarning
from engram.model.conversation import ConversationDraft, MessageDraft
from engram.model.fields import VISIBLE_ONLY, Bytes, Length, Source
from engram.model.ids import CONVERSATION_PREFIX, ConversationId, OrganizationId, derived_id
from engram.model.request import Request
from engram.model.value import INTERNAL, Value

SessionId = Annotated[
    str,
    Length(1, limits.SESSION_ID_CHARACTERS_MAX),
    VISIBLE_ONLY,
    "The source's id of the session.",
]
SourceMessageId = Annotated[
    str,
    Length(1, limits.SESSION_ID_CHARACTERS_MAX),
    Bytes(limits.SESSION_ID_CHARACTERS_MAX * 4),
    "The source's id of the message, unique in its session.",
]


class CapturedDraft(MessageDraft, kw_only=True):
    """A message with its source's own id."""

    original_id: SourceMessageId


class CaptureRequest(Request):
    """Messages of one session, in their order.

    Those that are stored already are left out, and so are further ones with the same id.
    """

    source: Annotated[Source, "The program that wrote the session, such as claude."]
    session: SessionId
    messages: Annotated[tuple[CapturedDraft, ...], Length(1, limits.MESSAGES_PER_CALL_MAX)]
    conversation: Annotated[
        ConversationDraft, "Describes the conversation; used when it is created."
    ] = ConversationDraft()

    def check(self) -> None:
        size = sum(len(message.content.encode()) for message in self.messages)
        if size > limits.CALL_BYTES_MAX:
            raise RequestTooLargeError(
                "messages", limit=limits.CALL_BYTES_MAX, actual=size, unit="bytes"
            )


class CaptureReceipt(Value, omit_defaults=True):
    """What a capture stored: all of it is durable and searchable when this is returned."""

    conversation_id: ConversationId
    stored: int
    known: int
    """Messages that were stored before."""
    forgotten: int = 0
    """Messages left out because their conversation was deleted here."""
    quota_warning: Annotated[QuotaWarning, INTERNAL] = None


def session_conversation(
    organization_id: OrganizationId, *, source: str, session: str
) -> ConversationId:
    """Return the id of the conversation that holds a session of a source."""
    seed = f"{organization_id}\0{source}\0{session}"
    return ConversationId(derived_id(CONVERSATION_PREFIX, seed))


def message_identity(original_id: str) -> str:
    """Return what identifies a message in its conversation: the digest of the source's own id."""
    return derived_id("", original_id)

"""Do for new messages what needs no write lock: analyse, hash and compress them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engram.clock import to_microseconds
from engram.model.conversation import MessageDraft
from engram.offload import offload
from engram.storage.bookkeeping.stored_size import message_bytes
from engram.storage.codec import ContentCodec
from engram.storage.content.messages import to_json
from engram.text.analyse import message_words, part_words


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMessage:
    """A message ready to be stored, but for its place."""

    values: Mapping[str, Any]
    words: tuple[str, str]
    """As `part_words` parts them."""
    content_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMessages:
    """The messages of one append."""

    messages: Sequence[PreparedMessage]
    content_bytes: int
    stored_bytes: int
    """What they count towards the quota, as messages of a conversation."""


async def prepare_messages(
    drafts: Sequence[MessageDraft], codec: ContentCodec, *, title: str | None = None
) -> PreparedMessages:
    """Return the messages ready to be stored; large ones do not hold up the event loop.

    `title` is that of the conversation they are for, if a document is among them.
    """
    characters = sum(len(draft.content) for draft in drafts)
    return await offload(partial(_prepare_all, drafts, codec, title), characters=characters)


def _prepare_all(
    drafts: Sequence[MessageDraft], codec: ContentCodec, title: str | None
) -> PreparedMessages:
    prepared = [_prepare(draft, codec, title) for draft in drafts]
    content_bytes = sum(message.content_bytes for message in prepared)
    return PreparedMessages(
        messages=prepared,
        content_bytes=content_bytes,
        stored_bytes=content_bytes + sum(message_bytes(message.values) for message in prepared),
    )


def _prepare(draft: MessageDraft, codec: ContentCodec, title: str | None) -> PreparedMessage:
    stored = codec.encode(draft.content)
    values = {
        "role": draft.role,
        "characters": len(draft.content),
        "occurred_at": None if draft.occurred_at is None else to_microseconds(draft.occurred_at),
        "name": draft.name,
        "tool_call_id": draft.tool_call_id,
        "tool_name": draft.tool_name,
        "content_encoding": stored.encoding,
        "sha256": stored.sha256,
        "metadata": None if draft.metadata is None else to_json(draft.metadata),
        "content": stored.content,
    }
    return PreparedMessage(
        values=values,
        words=part_words(message_words(draft, title=title)),
        content_bytes=stored.content_bytes,
    )

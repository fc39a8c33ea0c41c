"""The kinds of identifiers, and the one rule for ids that are derived instead of drawn."""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from typing import NewType

OrganizationId = NewType("OrganizationId", str)
KeyId = NewType("KeyId", str)
ConversationId = NewType("ConversationId", str)
MessageId = NewType("MessageId", str)
ChunkId = NewType("ChunkId", str)
MemoryId = NewType("MemoryId", str)
RelationId = NewType("RelationId", str)
EpisodeId = NewType("EpisodeId", str)
DocumentId = NewType("DocumentId", str)

MessageKey = NewType("MessageKey", int)
"""A store's own number for a message: opaque outside the store, ordered by conversation and sequence."""

ConversationKey = NewType("ConversationKey", int)
"""A store's own number for a conversation: opaque outside the store."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")

CHUNKER_VERSION = 1
"""Raised whenever the same messages would give other chunks."""


def chunk_id(owner: str, *, start: int, end: int) -> ChunkId:
    """Return the id of the chunk of `owner` that covers `start` to `end`, the same in every process."""
    return ChunkId(derived_id("chk_", f"{owner}:{start}:{end}:{CHUNKER_VERSION}"))


def message_id(conversation_id: ConversationId, sequence: int) -> MessageId:
    """Return the id of a message: its place never changes, so no store need keep it."""
    return MessageId(derived_id("msg_", f"{conversation_id}:{sequence}"))


def derived_id(prefix: str, seed: str) -> str:
    """Return `prefix` and 21 URL-safe characters that follow from `seed` alone."""
    digest = hashlib.sha256(seed.encode()).digest()[:16]
    # As `base64.urlsafe_b64encode`, without its layers: every message read gets its id here.
    return prefix + b2a_base64(digest, newline=False).translate(_URL_SAFE).decode()[:21]

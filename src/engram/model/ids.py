"""Types of identifiers, and the derivation of deterministic ids."""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from typing import NewType

from engram import limits

OrganizationId = NewType("OrganizationId", str)
KeyId = NewType("KeyId", str)
ConversationId = NewType("ConversationId", str)
MessageId = NewType("MessageId", str)
ChunkId = NewType("ChunkId", str)
MemoryId = NewType("MemoryId", str)
RelationId = NewType("RelationId", str)
EpisodeId = NewType("EpisodeId", str)
DocumentId = NewType("DocumentId", str)
ErasureId = NewType("ErasureId", str)

KEY_PREFIX = "key_"
"""Every id of a key begins with it; other actors are the owner of the machine, and operators."""

CONVERSATION_PREFIX = "conv_"
"""Every id of a conversation begins with it."""

MessageKey = NewType("MessageKey", int)
"""Internal row key of a message: opaque outside the store, ordered by conversation and sequence."""

ConversationKey = NewType("ConversationKey", int)
"""Internal row key of a conversation: opaque outside the store."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")

CHUNKER_VERSION = 1
"""Incremented whenever the same messages would be split into different chunks."""


def chunk_id(owner: str, *, start: int, end: int) -> ChunkId:
    """Return the deterministic id of the chunk of `owner` that covers `start` to `end`."""
    return ChunkId(derived_id("chk_", f"{owner}:{start}:{end}:{CHUNKER_VERSION}"))


def message_id(conversation_id: ConversationId, sequence: int) -> MessageId:
    """Return the id of a message, which is derived from its position and so never stored."""
    return MessageId(derived_id("msg_", f"{conversation_id}:{sequence}"))


def conversation_reference(conversation_id: ConversationId) -> str:
    """Return the beginning of an id, without its prefix, by which reading tools find a conversation."""
    random = conversation_id.removeprefix(CONVERSATION_PREFIX)
    return random[: limits.CONVERSATION_REFERENCE_CHARACTERS]


def derived_id(prefix: str, seed: str) -> str:
    """Return `prefix` plus 21 URL-safe base64 characters of the SHA-256 of `seed`."""
    digest = hashlib.sha256(seed.encode()).digest()[:16]
    # Faster than `base64.urlsafe_b64encode`; this runs for every message that is read. 21 characters
    # are 126 of the 128 bits.
    return prefix + b2a_base64(digest, newline=False).translate(_URL_SAFE).decode()[:21]

"""Vectors passed between embedders and stores, and the state of re-embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from engram.model.conversation import Role
from engram.model.ids import MessageKey
from engram.model.row_keys import RecordKind
from engram.model.value import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tier = Literal["instant", "deep"]
"""Instant vectors are stored with their message; deep ones replace them later."""

Units = Literal["passages", "sentences", "both"]
"""What of a text has vectors: its passages, mostly one; its sentences; or, in the deep tier, both."""


def units_of(kind: RecordKind, role: Role) -> Units:
    """Return what has vectors of a message of a conversation, memory or document."""
    if kind == "document":
        return "sentences"
    return "both" if kind == "conversation" and role != "document" else "passages"


class PassageVector(Value):
    """The vector of a passage: a message's characters from `start` up to `end`, exclusive."""

    start: int
    end: int
    content: bytes
    """Quantised and packed by `engram.vectors.quantise`."""
    tokens: bytes | None = None
    """The vectors of its tokens, packed by `engram.vectors.tokens`; only of a whole message."""


class NewVectors(Value):
    """Vectors for the messages of one append, computed before the write."""

    tier: Tier
    identity: str
    """Identity of the embedder; vectors of different identities are never compared."""
    messages: Sequence[Sequence[PassageVector]]
    """Passages of each message, in order; empty for a message that has to wait for them."""


class Indexing(Value):
    """What an append stores for vector search."""

    vectors: NewVectors | None = None
    is_queued: bool = False
    """True if the messages are queued for deep vectors, even before any embedder is known."""


WORDS_ALONE = Indexing()


class QueryTokens(Value, eq=False):
    """The vectors of a query's tokens, and how much each weighs."""

    vectors: NDArray[np.float32]
    weights: NDArray[np.float64]


class QueryVector(Value):
    """The vector of a query in one tier."""

    tier: Tier
    identity: str
    vector: NDArray[np.float32] | None
    """None if the query was not embedded because there may be nothing to compare it with."""
    tokens: QueryTokens | None = None
    """Compared with the tokens of the best candidates; None without late interaction."""


class Unmoved(Value):
    """A message without vectors of an embedder, such as the new one of a re-embedding."""

    key: MessageKey
    name: str | None
    content: str
    units: Units = "passages"


class Unembedded(Unmoved):
    """A message queued for deep vectors, leased to one process."""

    attempts: int
    """How often it has been leased, including this time."""


class Embedded(Value):
    """A message's deep vectors, ready to be stored."""

    key: MessageKey
    passages: Sequence[PassageVector]


class StoredIdentities(Value):
    """The embedders of an organisation's stored vectors; None if there are none."""

    instant: str | None = None
    deep: str | None = None
    next: str | None = None
    """The embedder whose vectors are being computed to replace the deep ones."""


class ReembeddingBegun(Value):
    """State of the store when a re-embedding begins."""

    is_current: bool
    """True if the embedder is the current one, so that only missing vectors are queued."""
    dropped: str | None
    """The embedder of an unfinished re-embedding, whose vectors will be removed."""


class UnmovedCount(Value, kw_only=False):
    """How much of a re-embedding is left to do; its fields are the columns of one row."""

    messages: int
    """All messages of the organisation."""
    unmoved: int
    """Messages without vectors of the new embedder."""
    passages: int
    """Passages of the unmoved messages, estimated from their length."""


class UnmovedBatch(Value):
    """A batch of unmoved messages, ordered by key."""

    messages: tuple[Unmoved, ...] = ()
    unreadable: tuple[MessageKey, ...] = ()

    @property
    def last(self) -> MessageKey | None:
        """Return the highest key; None if the batch is empty."""
        return max((*(message.key for message in self.messages), *self.unreadable), default=None)

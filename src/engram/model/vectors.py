"""Vectors between those who make them and those who keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engram.model.ids import MessageKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tier = Literal["instant", "deep"]
"""Instant vectors are stored with their message; deep ones follow and take their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageVector:
    """The vector of a message's characters from `start` up to but not including `end`."""

    start: int
    end: int
    content: bytes
    """As `engram.vectors.quantise` packed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVectors:
    """The vectors of the messages of one append, made before they are stored."""

    tier: Tier
    identity: str
    """What the embedder's vectors carry: vectors of another identity are never compared."""
    messages: Sequence[Sequence[PassageVector]]
    """The passages of each message, in order; none where the message has to wait for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexing:
    """What an append stores for the search by meaning."""

    vectors: NewVectors | None = None
    is_queued: bool = False
    """The messages wait for deep vectors, even if no embedder has given any so far."""


WORDS_ALONE = Indexing()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVector:
    """A question as a vector of one tier."""

    tier: Tier
    identity: str
    vector: NDArray[np.float32] | None
    """None where it is not known whether there is anything to compare it with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unembedded:
    """A message that waits for its deep vectors, leased to one process."""

    key: MessageKey
    name: str | None
    content: str
    is_of_document: bool = False
    """It is a part of a document, whose sentences have vectors of their own."""
    attempts: int
    """How often it was leased, this time included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A message's deep vectors, ready to be stored."""

    key: MessageKey
    passages: Sequence[PassageVector]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIdentities:
    """Whose vectors an organisation holds; None where there are none."""

    instant: str | None = None
    deep: str | None = None
    next: str | None = None
    """Whose vectors are being built to take the place of the deep ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembeddingBegun:
    """How things stand when vectors of an embedder are to take the place of the deep ones."""

    is_current: bool
    """They are the deep ones already, so that messages without them wait for them."""
    dropped: str | None
    """Whose vectors were being built until now, and will be removed."""


@dataclass(frozen=True, slots=True)
class UnmovedCount:
    """What there is to do until vectors of an embedder can take the place of the deep ones."""

    messages: int
    """All there are."""
    unmoved: int
    """Those without such vectors."""
    passages: int
    """Of the unmoved ones, estimated by their length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmoved:
    """A message without vectors of the embedder that is to take over."""

    key: MessageKey
    name: str | None
    content: str
    is_of_document: bool = False
    """As of waiting messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmovedBatch:
    """Some of them, in order of their keys."""

    messages: tuple[Unmoved, ...] = ()
    unreadable: tuple[MessageKey, ...] = ()

    @property
    def last(self) -> MessageKey | None:
        """Return the last key; None when there is none."""
        return max((*(message.key for message in self.messages), *self.unreadable), default=None)

"""What a store says about itself: counts, coverage, findings, and reports of maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from engram.model.access import Quota, Use
from engram.model.ids import OrganizationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Maintained with every write, never counted on a request."""

    conversations: int
    messages: int
    content_bytes: int
    chunks: int
    vectors: int
    pending: int
    memories: int = 0
    """Those that are searched; the text of each is also one of the messages."""
    documents: int = 0
    stored_bytes: int = 0
    """Everything that was given to be stored, as the quota counts it."""
    file_bytes: int = 0
    """Of the organisation's files in the data directory; they count as well."""

    @property
    def use(self) -> Use:
        """Return what the quota bounds."""
        return Use(self.messages, self.stored_bytes + self.file_bytes)

    @property
    def messages_of_conversations(self) -> int:
        """Return how many messages were said, as opposed to the texts of memories."""
        return self.messages - self.memories


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What an organisation holds, and how it is searched."""

    counters: Counters
    embedder: str | None
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What an organisation has used of its quota."""

    messages: int
    content_bytes: int
    stored_bytes: int
    """Everything that the quota of bytes counts."""
    quota: Quota
    days: tuple[UsageDay, ...] = ()
    """The newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDay:
    """What an organisation did on one day, in UTC."""

    day: date
    requests: int = 0
    searches: int = 0
    embedded_texts: int = 0
    """Texts that the deep embedder was given to store their vectors."""
    stored_bytes: int = 0
    """What the quota of bytes counted when the day was last written down."""

    def __add__(self, later: UsageDay) -> UsageDay:
        return UsageDay(
            day=self.day,
            requests=self.requests + later.requests,
            searches=self.searches + later.searches,
            embedded_texts=self.embedded_texts + later.embedded_texts,
            stored_bytes=later.stored_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of an organisation's text its indexes hold."""

    organization_id: OrganizationId
    messages: int
    messages_indexed: int
    messages_deep: int
    """Messages with deep vectors."""
    messages_instant: int
    """Messages with instant vectors, which have no deep ones so far."""

    @property
    def messages_without_vector(self) -> int:
        """Return how many messages are found by their words alone."""
        return self.messages - self.messages_deep - self.messages_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillReport:
    """What one batch of compression did."""

    processed: int
    compressed: int
    skipped_too_small: int
    remaining: int


CheckName = Literal[
    "file",
    "hashes",
    "counters",
    "sequences",
    "memories",
    "documents",
    "words",
    "vectors",
    "jobs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something `doctor` found wrong in one organisation's store."""

    organization_id: OrganizationId | None
    check: CheckName
    message: str
    repairable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of background work, leased to one process."""

    id: str
    kind: str
    subject: str
    attempts: int
    lease_until: datetime

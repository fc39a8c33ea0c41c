"""State of a store: counters, usage, coverage, findings, background jobs and notifications of change."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, TypeAlias

from engram.model.access import Quota, Use
from engram.model.ids import KeyId, OrganizationId
from engram.model.value import Value, computed


class Counters(Value):
    """Row counts and sizes, updated with every write and never computed on demand."""

    conversations: int
    messages: int
    content_bytes: int
    chunks: int
    vectors: int
    pending: int
    memories: int = 0
    """Searchable memories; the text of each also counts as a message."""
    documents: int = 0
    stored_bytes: int = 0
    """Stored content and row overhead, as the quota counts them."""
    file_bytes: int = 0
    """The organisation's files in the data directory, which count towards the quota as well."""
    trashed_messages: int = 0
    """Messages in the trash: not searched, and not among `messages`, but counted by the quota."""

    @property
    def use(self) -> Use:
        """Return the usage that the quota limits."""
        messages = self.messages + self.trashed_messages
        return Use(messages, self.stored_bytes + self.file_bytes)

    @property
    def messages_of_conversations(self) -> int:
        """Return the messages of conversations, without the texts of memories."""
        return self.messages - self.memories


class ScrubState(Value):
    """When everything of an organisation was last read, and what that found."""

    finished_at: datetime | None = None
    """None: not yet."""
    faults: int = 0
    """Found by the last pass, or by the one that is under way if these are more."""
    found: tuple[str, ...] = ()
    """The first of them."""


class Status(Value):
    """Counters, embedder and degraded features of an organisation."""

    counters: Counters
    embedder: str | None
    degraded: tuple[str, ...]
    pending_since: datetime | None = None
    """When the oldest text that waits for deep vectors was stored; None if none waits."""
    scrub: ScrubState = ScrubState()


class Usage(Value):
    """Usage of an organisation against its quota."""

    messages: int
    content_bytes: int
    stored_bytes: int
    """Everything that counts towards the byte quota."""
    quota: Quota
    days: tuple[UsageDay, ...] = ()
    """The newest first."""


class UsageDay(Value):
    """Usage of an organisation on one day, in UTC."""

    day: date
    requests: int = 0
    searches: int = 0
    messages: int = 0
    """Appended and captured."""
    embedded_texts: int = 0
    """Texts sent to the deep embedder for indexing."""
    stored_bytes: int = 0
    """Usage of the byte quota when the day was last recorded."""

    def __add__(self, later: UsageDay) -> UsageDay:
        return UsageDay(
            day=self.day,
            requests=self.requests + later.requests,
            searches=self.searches + later.searches,
            messages=self.messages + later.messages,
            embedded_texts=self.embedded_texts + later.embedded_texts,
            stored_bytes=later.stored_bytes,
        )


class KeyDay(Value):
    """Requests of one key on one day, in UTC."""

    key_id: KeyId
    day: date
    requests: int


class SearchTimes(Value):
    """How long the latest searches of an organisation took in one process."""

    searches: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Coverage(Value):
    """How complete an organisation's indexes are."""

    organization_id: OrganizationId
    messages: int
    messages_indexed: int
    messages_deep: int
    """Messages with deep vectors."""
    messages_instant: int
    """Messages with instant vectors but no deep ones yet."""

    @computed
    def messages_without_vector(self) -> int:
        """Return how many messages are found by their words alone."""
        return self.messages - self.messages_deep - self.messages_instant


class BackfillReport(Value):
    """Result of compressing one batch of messages."""

    processed: int
    compressed: int
    skipped_too_small: int
    remaining: int

    @computed
    def status(self) -> Literal["done", "progress"]:
        """Return `progress` while there is more to compress."""
        return "progress" if self.remaining else "done"


CheckName = Literal[
    "availability",
    "file",
    "files",
    "hashes",
    "counters",
    "sequences",
    "memories",
    "documents",
    "words",
    "vectors",
    "jobs",
]


class Finding(Value):
    """A problem that `doctor` found in an organisation's store."""

    organization_id: OrganizationId | None
    check: CheckName
    message: str
    repairable: bool


class Job(Value):
    """A background job, leased to one process."""

    id: str
    kind: str
    subject: str
    attempts: int
    lease_until: datetime


WorkKind: TypeAlias = Literal["vectors", "documents", "erasing", "jobs", "scrub"]
"""Each is done by one loop of a process; `jobs` has the trash and rules of retention too."""

WORK_KINDS: tuple[WorkKind, ...] = ("vectors", "documents", "erasing", "jobs", "scrub")


class DueWork(Value):
    """Background work of an organisation that a process has claimed."""

    organization_id: OrganizationId
    kind: WorkKind


class KeysChanged(Value, kw_only=False):
    """Cached keys of an organisation are stale; None means those of all organisations."""

    organization_id: OrganizationId | None

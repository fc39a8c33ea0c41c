"""What is searched for, and what is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.checks import check_label, check_moment, check_range, check_tags, check_text
from engram.model.conversation import ROLES, Conversation, Message, Role
from engram.model.ids import ChunkId, ConversationId, ConversationKey, MessageKey
from engram.model.memory import EVERY_MEMORY, Memory, MemoryFilters
from engram.model.vectors import Tier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["conversation", "note", "document"]
Detail = Literal["messages", "window", "handle"]
ProfileName = Literal["default", "composite", "words", "vectors"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DETAILS: tuple[str, ...] = get_args(Detail)
PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse no kinds, and kinds that there are none of."""
    if not kinds or any(kind not in KINDS for kind in kinds):
        raise InvalidRequestError(f"must be some of {', '.join(KINDS)}", field="kinds")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilters:
    """Conditions that a message or a memory meets before it is ranked; all of them must hold.

    Tags, project and moments are asked of both. No memory meets what only conversations have:
    `conversation_id`, `agent_id`, `role`. No conversation meets `memory`.
    """

    conversation_id: ConversationId | None = None
    tags: tuple[str, ...] = ()
    agent_id: str | None = None
    project: str | None = None
    role: Role | None = None
    since: datetime | None = None
    """Inclusive; compared with when the message was said, else with when it was stored."""
    before: datetime | None = None
    """Exclusive."""
    memory: MemoryFilters = EVERY_MEMORY

    def __post_init__(self) -> None:
        check_tags(self.tags)
        check_label("agent_id", self.agent_id, characters_max=limits.NAME_CHARACTERS_MAX)
        check_label("project", self.project, characters_max=limits.PROJECT_CHARACTERS_MAX)
        if self.role is not None and self.role not in ROLES:
            raise InvalidRequestError(f"must be one of {', '.join(ROLES)}", field="role")
        check_moment("since", self.since)
        check_moment("before", self.before)
        if self.since and self.before and self.since >= self.before:
            raise InvalidRequestError("must be earlier than before", field="since")

    def admit(self, kinds: Sequence[Kind]) -> tuple[Kind, ...]:
        """Return those of the kinds that can meet the conditions."""
        is_of_conversations = any((self.conversation_id, self.agent_id, self.role))
        is_of_memories = not self.memory.is_empty
        return tuple(
            kind
            for kind in KINDS
            if kind in kinds
            and not (is_of_memories if kind == "conversation" else is_of_conversations)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """One question to the memory."""

    query: str
    limit: int = 5
    filters: SearchFilters = field(default_factory=SearchFilters)
    kinds: tuple[Kind, ...] = KINDS
    min_score: float = 0.0
    token_budget: int = 2000
    detail: Detail = "messages"
    profile: ProfileName = "default"
    explain: bool = False

    def __post_init__(self) -> None:
        if not self.query.strip():
            raise InvalidRequestError("must not be empty", field="query")
        check_text("query", self.query, bytes_max=limits.QUERY_BYTES_MAX)
        check_range("limit", self.limit, minimum=1, maximum=limits.SEARCH_RESULTS_MAX)
        check_range(
            "token_budget",
            self.token_budget,
            minimum=limits.TOKEN_BUDGET_MIN,
            maximum=limits.TOKEN_BUDGET_MAX,
        )
        if not 0.0 <= self.min_score <= 1.0:
            raise InvalidRequestError("must be between 0 and 1", field="min_score")
        check_kinds(self.kinds)
        if self.detail not in DETAILS:
            raise InvalidRequestError(f"must be one of {', '.join(DETAILS)}", field="detail")
        if self.profile not in PROFILES:
            raise InvalidRequestError(f"must be one of {', '.join(PROFILES)}", field="profile")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Messages some leg of the search proposed, each with the raw value of every leg.

    The text of a memory is the only message of a conversation of its own. One column for each fact, all of one length, ordered by key.
    """

    keys: NDArray[np.int64]
    conversations: NDArray[np.int64]
    sequences: NDArray[np.int64]
    characters: NDArray[np.int64]
    said_at: NDArray[np.int64]
    """Microseconds since 1970: when the message was said, else when it was stored."""
    are_documents: NDArray[np.bool_]
    """Whether a text is one that nobody said: a memory's or a document's."""
    share_message: NDArray[np.float64]
    """BM25 of the message divided by the most any message could reach for this query."""
    share_window: NDArray[np.float64]
    """The same for the best window that holds the message."""
    cosine: NDArray[np.float64]
    """Of the query and the message's nearest passage; NaN where it has no vector."""
    cosine_around: NDArray[np.float64]
    """Of the query and the message among its neighbours; NaN where it has no vector."""
    is_deep: NDArray[np.bool_]
    """Whether the cosines are of the deep tier; else they are of the instant one."""
    importance: NDArray[np.float64]
    """Of a memory, from 0 to `IMPORTANCE_MAX`; NaN for a message of a conversation."""
    usefulness: NDArray[np.float64]
    """How useful a memory proved, from -1 to 1; 0 where nothing was said of it."""
    mismatched: tuple[Tier, ...] = ()
    """Tiers whose stored vectors are of another embedder than the query's."""
    unasked: tuple[Tier, ...] = ()
    """Tiers of which there are vectors to compare, but no vector of the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What of the messages and conversations asked for still exists.

    What is a memory is among `memories` alone; of a document its chunks are messages too.
    """

    messages: Mapping[MessageKey, Message]
    conversations: Mapping[ConversationKey, Conversation]
    memories: Mapping[ConversationKey, Memory]
    chunk_counts: Mapping[ConversationKey, int]
    """Of the documents among them, how many chunks are stored."""
    pending: int
    """Messages that wait for deep vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBreakdown:
    """How a message's score came about: each leg's raw value, and the steps after it."""

    raw: Mapping[str, float]
    """What each leg measured: shares of BM25, cosines, hours."""
    legs: Mapping[str, float]
    """The same as absolute values, clipped; a leg that has none for this message is missing."""
    weights: Mapping[str, float]
    """The share of each leg that is there in the fused value."""
    vector_tier: Tier | None
    """Of the cosines, if there are any."""
    fused: float
    conversation_best: float
    """The best fused value of a candidate in the same conversation."""
    length_charge: float
    importance_factor: float
    """What a memory's importance makes of it; 1 for a message."""
    usefulness_factor: float
    """What was said of a memory after recalls makes of it; 1 where nothing was."""
    order: float
    """What the messages are ordered by: the fused value, drawn towards the best of the
    conversation, times the length charge and the factors."""


class FoundMessage(NamedTuple):
    """A message of a result, with what it scored."""

    message: Message
    score: float
    breakdown: ScoreBreakdown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The best messages of one conversation, one memory, or the best chunks of one document.

    A handle when the budget is used up.
    """

    kind: Kind
    score: float
    chunk_id: ChunkId
    owner: Conversation | Memory
    start_sequence: int
    """Of a memory, 1, as the end: its text is one."""
    end_sequence: int
    messages: tuple[FoundMessage, ...] = ()
    """Of a conversation, or the chunks of a document."""
    chunk_text: str | None = None
    """The text of the whole window, or of the memory."""
    breakdown: ScoreBreakdown | None = None
    """Of a memory; messages have their own."""
    is_handle: bool = False
    """True when no text is delivered: it is read with `get_conversation(around_sequence)`, or with
    `memory_fetch` and at `engram://memories/{id}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """The ranked results, what they cost, and what was left out or missing."""

    results: tuple[SearchResult, ...]
    total_candidates: int
    tokens: int
    truncated: bool
    pending: int
    degraded: tuple[str, ...]
    note: str | None = None


class Choice(Protocol):
    """What of a search's candidates is to be read."""

    @property
    def messages(self) -> Sequence[MessageKey]:
        """The messages to be read with their texts."""
        ...

    @property
    def conversations(self) -> Sequence[ConversationKey]:
        """The conversations to be read, without their messages."""
        ...

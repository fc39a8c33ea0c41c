"""Search: requests, filters, candidates and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Protocol, get_args

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.conversation import Conversation, Message, Role
from engram.model.fields import (
    AskedAt,
    Between,
    Length,
    Name,
    Project,
    Query,
    Share,
    Tags,
    TokenBudget,
)
from engram.model.ids import ChunkId, ConversationId, ConversationKey, MessageKey
from engram.model.memory import EVERY_MEMORY, Memory, MemoryFilters
from engram.model.request import Request
from engram.model.value import Value, derived
from engram.model.vectors import Tier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["conversation", "note", "document"]
Detail = Literal["messages", "window", "handle"]
CutBy = Literal["limit", "token_budget"]
ProfileName = Literal["default", "composite", "words", "vectors"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)


Kinds = Annotated[tuple[Kind, ...], Length(1)]


class SearchFilters(Value):
    """Conditions on messages and memories, applied before ranking; all of them must hold.

    Tags, project and times apply to both. Memories never match `conversation_id`, `agent_id` or
    `role`; conversations never match `memory`.
    """

    conversation_id: ConversationId | None = None
    tags: tuple[str, ...] = ()
    agent_id: str | None = None
    project: str | None = None
    role: Role | None = None
    since: datetime | None = None
    """Inclusive; compared with when the message was said, or else with when it was stored."""
    before: datetime | None = None
    """Exclusive."""
    memory: MemoryFilters = EVERY_MEMORY

    def admit(self, kinds: Sequence[Kind]) -> tuple[Kind, ...]:
        """Return those of the kinds that can match."""
        is_of_conversations = any((self.conversation_id, self.agent_id, self.role))
        is_of_memories = not self.memory.is_empty
        return tuple(
            kind
            for kind in KINDS
            if kind in kinds
            and not (is_of_memories if kind == "conversation" else is_of_conversations)
        )


def check_since_before(since: datetime | None, before: datetime | None) -> None:
    """Reject an empty period of time."""
    if since and before and since >= before:
        raise InvalidRequestError("must be earlier than before", field="since")


class SearchRequest(Request):
    """A search over everything that is stored."""

    query: Query
    limit: Annotated[int, Between(1, limits.SEARCH_RESULTS_MAX), "Counts messages and notes."] = 30
    conversation_id: ConversationId | None = None
    tags: Annotated[Tags, "All must match."] = ()
    agent_id: Name | None = None
    project: Project | None = None
    role: Role | None = None
    since: datetime | None = None
    before: datetime | None = None
    kinds: Kinds = KINDS
    min_score: Annotated[Share | None, "0 shows what is not relevant too."] = None
    token_budget: TokenBudget = 1500
    detail: Annotated[Detail, "A handle has no text."] = "messages"
    profile: ProfileName = "default"
    explain: bool = False
    asked_at: AskedAt = None

    def check(self) -> None:
        check_since_before(self.since, self.before)

    @property
    def filters(self) -> SearchFilters:
        """Return the filters among the fields."""
        return derived(SearchFilters, self)


class Candidates(Value, eq=False):
    """Messages proposed by any leg of a search, with the raw value of every leg for each.

    Columns of equal length, ordered by key. The text of a memory is the only message of a record of
    its own.
    """

    keys: NDArray[np.int64]
    conversations: NDArray[np.int64]
    sequences: NDArray[np.int64]
    characters: NDArray[np.int64]
    said_at: NDArray[np.int64]
    """Microseconds since 1970: when the message was said, or else when it was stored."""
    are_documents: NDArray[np.bool_]
    """True for the text of a memory or a document, which has no speaker."""
    share_message: NDArray[np.float64]
    """BM25 score of the message divided by the maximum possible score for this query."""
    share_window: NDArray[np.float64]
    """The same for the best window that contains the message."""
    coverage: NDArray[np.float64]
    """The part of the query that its words make up, rare words counting more; 1 if it has them all."""
    cosine: NDArray[np.float64]
    """Of the query and the message's nearest passage; NaN if it has no vector."""
    cosine_around: NDArray[np.float64]
    """Of the query and the message with its neighbours; NaN if it has no vector."""
    is_deep: NDArray[np.bool_]
    """True if the cosines are of the deep tier, False for the instant one."""
    importance: NDArray[np.float64]
    """Of a memory, from 0 to `IMPORTANCE_MAX`; NaN for a message of a conversation."""
    usefulness: NDArray[np.float64]
    """Rating of a memory from feedback, from -1 to 1; 0 without feedback."""
    token_match: NDArray[np.float64] | None = None
    """How well its tokens match the query's, on average; NaN if they were not compared, None if none
    were."""
    are_in_time: NDArray[np.bool_] | None = None
    """True if said in the time that words of the query mean; None if they do not set any apart."""
    mismatched: tuple[Tier, ...] = ()
    """Tiers whose stored vectors come from another embedder than the query's."""
    unasked: tuple[Tier, ...] = ()
    """Tiers with stored vectors but without a query vector to compare them with."""


class ComparedPassage(NamedTuple):
    """A passage of a message, compared with a query."""

    start: int
    end: int
    cosine: float
    tier: Tier
    """Of the vectors that were compared."""


class Loaded(Value):
    """The requested messages and conversations that still exist.

    Memories are in `memories` alone; the chunks of a document are also in `messages`.
    """

    messages: Mapping[MessageKey, Message]
    conversations: Mapping[ConversationKey, Conversation]
    memories: Mapping[ConversationKey, Memory]
    chunk_counts: Mapping[ConversationKey, int]
    """The number of stored chunks of each document among them."""
    pending: int
    """Messages that wait for deep vectors."""
    passages: Mapping[MessageKey, Sequence[ComparedPassage]] = {}
    """Of the messages of which only a part is delivered."""


class ScoreBreakdown(Value, omit_defaults=True):
    """How a score was computed: the raw value of each leg, and the steps after it."""

    raw: Mapping[str, float]
    """Raw values of the legs: BM25 shares, cosines, hours."""
    legs: Mapping[str, float]
    """The same normalised and clipped; a leg without a value for this message is missing."""
    weights: Mapping[str, float]
    """The weight of each present leg in the fused value."""
    vector_tier: Tier | None = None
    """Tier of the cosines, if there are any."""
    time_bonus: float = 0.0
    """Part of the fused value that is for the time of which the query speaks."""
    fused: float
    conversation_best: float
    """The highest fused value in the same conversation."""
    length_charge: float
    importance_factor: float
    """Factor for a memory's importance; 1 for a message."""
    usefulness_factor: float
    """Factor for feedback on a memory; 1 without feedback."""
    order: float
    """The ranking key: the fused value, pulled towards the conversation's best, times the length charge
    and the factors."""


class TextRange(Value):
    """The part of a stored text that is delivered, in characters."""

    start: int
    end: int
    of: int
    """The length of the whole text."""


class FoundMessage(NamedTuple):
    """A message of a result, with its score."""

    message: Message
    """With only the matching part of a long content."""
    score: float
    breakdown: ScoreBreakdown | None = None
    range: TextRange | None = None
    """Set if the content is a part."""


class SearchResult(Value):
    """The best messages of one conversation, one memory, or the best chunks of one document.

    It is a handle, without text, once the token budget is used up.
    """

    kind: Kind
    score: float
    chunk_id: ChunkId
    owner: Conversation | Memory
    start_sequence: int
    """1 for a memory, as is the end: its text is a single message."""
    end_sequence: int
    messages: tuple[FoundMessage, ...] = ()
    """Messages of a conversation, or chunks of a document."""
    chunk_text: str | None = None
    """The text of the whole window, or of the memory."""
    breakdown: ScoreBreakdown | None = None
    """For a memory; messages have their own."""
    range: TextRange | None = None
    """Set if the text of a memory is a part."""
    found_sequence: int | None = None
    """Of a handle: the message that was found."""
    is_handle: bool = False
    """True if the text is left out: read it with `get_conversation(around_sequence)`, with
    `memory_fetch`, or at `engram://memories/{id}`."""


class SearchAnswer(Value):
    """Ranked results, their token cost, and what was left out or degraded."""

    results: tuple[SearchResult, ...]
    total_candidates: int
    tokens: int
    truncated: bool
    pending: int
    degraded: tuple[str, ...]
    weaker: int = 0
    """Candidates that are not delivered because they are not relevant enough."""
    repeated: int = 0
    """Candidates that are not delivered because a better one has the same text."""
    cut_by: CutBy | None = None
    """The bound that left out something relevant."""
    note: str | None = None


class Choice(Protocol):
    """The candidates of a search that are to be loaded."""

    @property
    def messages(self) -> Sequence[MessageKey]:
        """The messages to load with their texts."""
        ...

    @property
    def conversations(self) -> Sequence[ConversationKey]:
        """The conversations to load without their messages."""
        ...

    @property
    def whole_tokens_max(self) -> int | None:
        """The longest text that is delivered whole: of longer ones the passages are compared."""
        ...

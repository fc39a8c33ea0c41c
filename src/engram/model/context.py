"""What is fetched as context for a model, and how it comes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.checks import check_choice, check_range, check_share, check_text
from engram.model.memory import CATEGORIES, Category
from engram.model.search import Kind, check_kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """What a model is about to work on."""

    query: str
    top_k: int = 5
    category_filter: Category | None = None
    min_score: float | None = None
    """What an entry must reach; None is a score near which answers begin."""
    token_budget: int = 1500
    kinds: tuple[Kind, ...] = ("note",)

    def __post_init__(self) -> None:
        if len(self.query.strip()) < limits.CONTEXT_QUERY_CHARACTERS_MIN:
            least = limits.CONTEXT_QUERY_CHARACTERS_MIN
            raise InvalidRequestError(f"must have at least {least} characters", field="query")
        check_text("query", self.query, bytes_max=limits.QUERY_BYTES_MAX)
        check_range("top_k", self.top_k, minimum=1, maximum=limits.CONTEXT_RESULTS_MAX)
        if self.category_filter is not None:
            check_choice("category_filter", self.category_filter, CATEGORIES)
        check_share("min_score", self.min_score)
        check_range(
            "token_budget",
            self.token_budget,
            minimum=limits.TOKEN_BUDGET_MIN,
            maximum=limits.TOKEN_BUDGET_MAX,
        )
        check_kinds(self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextEntry:
    """A memory, or a message of a conversation, that is relevant to the work."""

    kind: Kind
    id: str
    """Of the memory or the message."""
    content: str
    """Verbatim, as much of it as the fenced text shows."""
    is_cut: bool
    """Whether the stored text is longer."""
    score: float
    date: datetime
    """When it was said or began to hold, else when it was stored."""
    category: Category | None = None
    """Of a memory."""
    source: str
    """Where a memory is from, or who said a message."""
    conversation_id: str | None = None
    """Of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Entries, best first, and one text that holds them for a model to read."""

    text: str
    """A block that no stored text can leave: `engram.text.fence`."""
    entries: tuple[ContextEntry, ...]
    used_tokens: int
    """What the text costs."""
    omitted: int
    """Relevant entries that did not fit the budget."""
    degraded: tuple[str, ...] = ()

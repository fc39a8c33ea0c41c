"""Search with its reasons: filters in the address, the legs of every score, near misses, and why not."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from engram.api.memories import ANYWHERE
from engram.api.memory_views import MemoryFetched
from engram.api.search import FoundMessageView, SearchAnswered, SearchResultView, is_handle
from engram.errors import AccessDeniedError, NotFoundError
from engram.model.value import Score, Value, replace
from engram.page.chips import Chip, chips_of
from engram.page.legs import Leg, legs_of
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit
from engram.page.why_not import WhyNot, why_not
from engram.text.tokens import count_tokens

RESULTS = 20
TOKENS = 6_000
"""Three screens of text; what does not fit is listed without it."""

SHOWN_CHARACTERS_MAX = 3_000
TITLE_CHARACTERS_MAX = 160
FILTERS = (
    "project", "tags", "kinds", "role", "agent_id", "since", "before", "conversation_id",
    "min_score", "profile", "limit", "token_budget", "asked_at",
)  # fmt: skip
LISTS = frozenset({"tags", "kinds"})
NAMES = {
    "agent_id": "agent",
    "conversation_id": "conversation",
    "min_score": "score at least",
    "token_budget": "tokens",
    "asked_at": "asked at",
    "kinds": "kind",
    "tags": "tag",
}
DAYS = ("since", "before", "asked_at")
_DAY_CHARACTERS = len("2026-01-31")


class Hit(Value, omit_defaults=True):
    """One message or memory that was found, why, and what it costs."""

    result: SearchResultView
    text: str
    sequence: int | None
    role: str | None
    speaker: str | None
    said_at: datetime | None
    score: Score
    tokens: int
    legs: tuple[Leg, ...]
    link: str
    is_cut: bool = False


class NearMiss(Value):
    """Something that came near, without its text."""

    title: str
    kind: str
    score: Score
    link: str


class SearchPage(Value, omit_defaults=True):
    """What a search has found, and how."""

    query: str | None = None
    chips: tuple[Chip, ...] = ()
    filters: dict[str, Any] = {}
    hits: tuple[Hit, ...] = ()
    near: tuple[NearMiss, ...] = ()
    answer: SearchAnswered | None = None
    why_not: WhyNot | None = None


async def load(visit: Visit) -> SearchPage:
    """Return what the address asks for; without a question nothing but the form."""
    query = visit.given("q")
    filters = _filters(visit)
    chips = chips_of(visit, filters, lists=LISTS, labels=NAMES)
    if query is None:
        return SearchPage(chips=chips, filters=filters)
    asked = {"limit": RESULTS, "token_budget": TOKENS, **filters}
    answer: SearchAnswered = await visit.call("search", query=query, explain=True, **asked)
    found = [each for each in answer.results if not is_handle(each)]
    return SearchPage(
        query=query,
        chips=chips,
        filters=filters,
        hits=tuple(hit for result in found for hit in _hits(result)),
        near=tuple([await _near(visit, each) for each in answer.results if is_handle(each)]),
        answer=replace(answer, results=()),
        why_not=await why_not(visit, query, filters, answer=answer),
    )


def _filters(visit: Visit) -> dict[str, Any]:
    given = dict[str, Any]()
    for name in FILTERS:
        values = visit.all_given(name)
        if name in LISTS and values:
            given[name] = values
        elif values:
            given[name] = _as_moment(values[0]) if name in DAYS else values[0]
    return given


def _as_moment(value: str) -> str:
    """Return a day of a date field as the moment at which it begins, in UTC."""
    return f"{value}T00:00:00Z" if len(value) == _DAY_CHARACTERS else value


def _hits(result: SearchResultView) -> list[Hit]:
    if not result.messages:
        return [_memory_hit(result)]
    hits = ",".join(str(message.sequence) for message in result.messages)
    return [_message_hit(result, message, hits) for message in result.messages]


def _message_hit(result: SearchResultView, message: FoundMessageView, hits: str) -> Hit:
    if result.conversation_id is None:
        link = _link(result)
    else:
        at = message.sequence
        link = f"/conversations/{result.conversation_id}?at={at}&hits={hits}#m{at}"
    return Hit(
        result=replace(result, messages=(), chunk_text=None),
        text=message.content[:SHOWN_CHARACTERS_MAX],
        is_cut=len(message.content) > SHOWN_CHARACTERS_MAX,
        sequence=message.sequence,
        role=message.role,
        speaker=message.name,
        said_at=message.occurred_at or message.created_at,
        score=message.score,
        tokens=count_tokens(message.content),
        legs=legs_of(message.score_breakdown),
        link=link,
    )


def _memory_hit(result: SearchResultView) -> Hit:
    text = result.chunk_text or ""
    return Hit(
        result=replace(result, messages=(), chunk_text=None),
        text=text[:SHOWN_CHARACTERS_MAX],
        is_cut=len(text) > SHOWN_CHARACTERS_MAX,
        sequence=None,
        role=None,
        speaker=result.source,
        said_at=result.updated_at or result.created_at,
        score=result.score,
        tokens=count_tokens(text),
        legs=legs_of(result.score_breakdown),
        link=_link(result),
    )


async def _near(visit: Visit, result: SearchResultView) -> NearMiss:
    return NearMiss(
        title=await _title(visit, result),
        kind=result.kind,
        score=result.score,
        link=_link(result),
    )


async def _title(visit: Visit, result: SearchResultView) -> str:
    """Return what a result without its text is called: a memory by how it begins."""
    if isinstance(result.conversation_title, str):
        return result.conversation_title
    if result.memory_id is None:
        return result.conversation_id or ""
    try:
        fetched: MemoryFetched = await visit.call("memory_fetch", ANYWHERE, id=result.memory_id)
    except (NotFoundError, AccessDeniedError):  # removed since, or a key that may only search
        return result.memory_id
    text = fetched.content or fetched.summary
    return text if len(text) <= TITLE_CHARACTERS_MAX else f"{text[:TITLE_CHARACTERS_MAX]}…"


def _link(result: SearchResultView) -> str:
    if result.document_id is not None:
        return f"/documents/{result.document_id}"
    if result.conversation_id is None:
        return f"/memories/{result.memory_id}"
    at = result.found_sequence or result.start_sequence
    return f"/conversations/{result.conversation_id}?at={at}#m{at}"


VIEWS = (
    View(
        path="/search",
        template="search.html",
        load=load,
        scopes=("search",),
        menu=Menu(label="Search"),
    ),
)
ACTS: tuple[Act, ...] = ()

"""Search with its reasons: filters in the address, the legs of every score, near misses, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from engram import limits
from engram.api.memories import ANYWHERE
from engram.api.search import FoundMessageView, SearchAnswered, SearchResultView, is_handle
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.search import ScoreBreakdown
from engram.model.value import Score, Value, replace
from engram.page.chips import Chip, chips_of
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit
from engram.text.tokens import count_tokens

RESULTS = 20
TOKENS = 6_000
"""Three screens of text; what does not fit is listed without it."""

SHOWN_CHARACTERS_MAX = 3_000
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
DAYS = ("since", "before")
_DAY_CHARACTERS = len("2026-01-31")

EVERYTHING: dict[str, Any] = {
    "min_score": 0,
    "limit": limits.SEARCH_RESULTS_MAX,
    "token_budget": limits.TOKEN_BUDGET_MAX,
    "detail": "handle",
    "explain": True,
}
"""Fields of a search that leaves out nothing it can."""

NOT_RELEVANT = "It was found, but is not relevant enough to be shown."
FILTERED = "A filter leaves it out: without filters it has this rank."


class Leg(Value):
    """One scoring method's part of a score."""

    name: str
    value: Score
    """From 0 to 1."""
    weight: Score
    raw: Score


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


class WhyNot(Value, omit_defaults=True):
    """Where something ranks that was missed, and what kept it out."""

    id: str
    verdict: str
    rank: int | None = None
    of: int | None = None
    score: Score | None = None
    best: Score | None = None
    legs: tuple[Leg, ...] = ()


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
        near=tuple(_near(each) for each in answer.results if is_handle(each)),
        answer=replace(answer, results=()),
        why_not=await _why_not(visit, query, filters, shown=found),
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
        legs=_legs(message.score_breakdown),
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
        legs=_legs(result.score_breakdown),
        link=_link(result),
    )


def _near(result: SearchResultView) -> NearMiss:
    title = result.conversation_title
    return NearMiss(
        title=title if isinstance(title, str) else result.memory_id or result.conversation_id or "",
        kind=result.kind,
        score=result.score,
        link=_link(result),
    )


def _link(result: SearchResultView) -> str:
    if result.document_id is not None:
        return f"/documents/{result.document_id}"
    if result.conversation_id is None:
        return f"/memories/{result.memory_id}"
    at = result.found_sequence or result.start_sequence
    return f"/conversations/{result.conversation_id}?at={at}#m{at}"


def _legs(breakdown: ScoreBreakdown | None) -> tuple[Leg, ...]:
    if breakdown is None:
        return ()
    return tuple(
        Leg(
            name=name,
            value=max(0.0, min(1.0, value)),
            weight=breakdown.weights.get(name, 0.0),
            raw=breakdown.raw.get(name, 0.0),
        )
        for name, value in breakdown.legs.items()
    )


async def _why_not(
    visit: Visit, query: str, filters: dict[str, Any], *, shown: list[SearchResultView]
) -> WhyNot | None:
    """Return where the id that the address names ranks among everything, and why it is not shown."""
    sought = visit.given("why")
    if sought is None:
        return None
    sought = sought.strip()
    kept = {name: value for name, value in filters.items() if name not in EVERYTHING}
    ranked: SearchAnswered = await visit.call("search", query=query, **kept, **EVERYTHING)
    if (place := _place(ranked.results, sought)) is not None:
        is_shown = _place(shown, sought) is not None
        verdict = "It is among the results above." if is_shown else NOT_RELEVANT
        return _verdict(ranked, sought, place, verdict)
    unfiltered: SearchAnswered = await visit.call("search", query=query, **EVERYTHING)
    if kept and (place := _place(unfiltered.results, sought)) is not None:
        return _verdict(unfiltered, sought, place, FILTERED)
    return await _unranked(visit, sought, unfiltered)


def _place(results: Sequence[SearchResultView], sought: str) -> int | None:
    for place, each in enumerate(results):
        if sought in {each.conversation_id, each.memory_id, each.document_id, each.chunk_id}:
            return place
    return None


def _verdict(answer: SearchAnswered, sought: str, place: int, verdict: str) -> WhyNot:
    found = answer.results[place]
    return WhyNot(
        id=sought,
        verdict=verdict,
        rank=place + 1,
        of=answer.total_candidates,
        score=found.score,
        best=answer.results[0].score,
        legs=_legs(found.score_breakdown),
    )


async def _unranked(visit: Visit, sought: str, answer: SearchAnswered) -> WhyNot:
    reads: dict[str, tuple[str, Mapping[str, Any], str]] = {
        "conv_": ("get_conversation", {}, "conversation_id"),
        "mem_": ("memory_fetch", ANYWHERE, "id"),
    }
    found = next((read for start, read in reads.items() if sought.startswith(start)), None)
    if found is None:
        verdict = "Give the id of a conversation (conv_…) or of a memory (mem_…)."
        return WhyNot(id=sought, verdict=verdict)
    operation, fixed, field = found
    try:
        await visit.call(operation, fixed, **{field: sought})
    except (NotFoundError, InvalidRequestError):
        return WhyNot(id=sought, verdict="There is nothing with this id.")
    verdict = (
        f"It exists, and is not among the {len(answer.results)} that came nearest: neither its words "
        "nor its meaning are close to the question."
    )
    return WhyNot(id=sought, verdict=verdict, of=answer.total_candidates)


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

"""Why not: where something that a search did not show ranks, and what kept it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engram import limits
from engram.api.memories import ANYWHERE
from engram.api.search import SearchAnswered, SearchResultView, is_handle
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.search import CutBy
from engram.model.value import Score, Value
from engram.page.legs import Leg, legs_of
from engram.page.visit import Visit

UNBOUNDED: Mapping[str, Any] = {
    "limit": limits.SEARCH_RESULTS_MAX,
    "token_budget": limits.TOKEN_BUDGET_MAX,
}
"""Fields of a search that shows all that is relevant."""

EVERYTHING: Mapping[str, Any] = {**UNBOUNDED, "min_score": 0, "detail": "handle", "explain": True}
"""Fields of a search that leaves out nothing it can."""

SHOWN = "It is among the results above."
NOT_RELEVANT = "It was found, but is not relevant enough to be shown."
REPEATED = "It says the same as a better result, and a text is shown once."
FILTERED = "A filter leaves it out: without filters it has this rank."
CUT: Mapping[CutBy, str] = {
    "limit": "It is relevant, but there is no room for so many results.",
    "token_budget": "It is relevant, but better results have taken the tokens.",
}
READS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "conv_": ("get_conversation", {}, "conversation_id"),
    "mem_": ("memory_fetch", ANYWHERE, "id"),
    "doc_": ("document_status", {}, "document_id"),
}
"""The operation that reads a thing, what is fixed of it and the field that names the thing, by prefix."""


class WhyNot(Value, omit_defaults=True):
    """Where something ranks that was missed, and what kept it out."""

    id: str
    verdict: str
    rank: int | None = None
    of: int | None = None
    score: Score | None = None
    best: Score | None = None
    legs: tuple[Leg, ...] = ()
    remedy: str | None = None
    """The address of a search that shows it."""


async def why_not(
    visit: Visit, query: str, filters: Mapping[str, Any], *, answer: SearchAnswered
) -> WhyNot | None:
    """Return where the id that the address names ranks among everything, and why it is not shown."""
    given = visit.given("why")
    if given is None:
        return None
    sought = given.strip().partition("#")[0]  # a message is named by its conversation
    kept = {name: value for name, value in filters.items() if name not in EVERYTHING}
    ranked: SearchAnswered = await visit.call("search", query=query, **kept, **EVERYTHING)
    if (place := _place(ranked.results, sought)) is not None:
        score = ranked.results[place].score
        verdict, remedy = await _reason(visit, query, filters, sought, answer=answer, score=score)
        return _ranked(ranked, sought, place, verdict, remedy)
    unfiltered: SearchAnswered = await visit.call("search", query=query, **EVERYTHING)
    if kept and (place := _place(unfiltered.results, sought)) is not None:
        remedy = visit.link(**dict.fromkeys(kept), min_score=0)
        return _ranked(unfiltered, sought, place, FILTERED, remedy)
    return await _unranked(visit, sought, unfiltered)


async def _reason(
    visit: Visit,
    query: str,
    filters: Mapping[str, Any],
    sought: str,
    *,
    answer: SearchAnswered,
    score: float,
) -> tuple[str, str | None]:
    """Return why something that has a rank is not shown, and an address that shows it."""
    if _place(_with_text(answer), sought) is not None:
        return SHOWN, None
    relevant: SearchAnswered = await visit.call("search", query=query, **{**filters, **UNBOUNDED})
    shown = _with_text(relevant)
    if _place(shown, sought) is not None:
        return CUT[answer.cut_by or "token_budget"], visit.link(**UNBOUNDED)
    if relevant.repeated and shown and score > shown[-1].score:
        return REPEATED, None
    return NOT_RELEVANT, visit.link(min_score=0, **UNBOUNDED)


def _with_text(answer: SearchAnswered) -> list[SearchResultView]:
    return [each for each in answer.results if not is_handle(each)]


def _place(results: Sequence[SearchResultView], sought: str) -> int | None:
    for place, each in enumerate(results):
        if sought in {each.conversation_id, each.memory_id, each.document_id, each.chunk_id}:
            return place
    return None


def _ranked(
    answer: SearchAnswered, sought: str, place: int, verdict: str, remedy: str | None
) -> WhyNot:
    found = answer.results[place]
    return WhyNot(
        id=sought,
        verdict=verdict,
        rank=place + 1,
        of=answer.total_candidates,
        score=found.score,
        best=answer.results[0].score,
        legs=legs_of(found.score_breakdown),
        remedy=remedy,
    )


async def _unranked(visit: Visit, sought: str, answer: SearchAnswered) -> WhyNot:
    read = next((READS[start] for start in READS if sought.startswith(start)), None)
    if read is None:
        verdict = "Give the id of a conversation (conv_…), a memory (mem_…) or a document (doc_…)."
        return WhyNot(id=sought, verdict=verdict)
    operation, fixed, field = read
    try:
        await visit.call(operation, fixed, **{field: sought})
    except (NotFoundError, InvalidRequestError):
        return WhyNot(id=sought, verdict="There is nothing with this id.")
    verdict = (
        f"It exists, and is not among the {len(answer.results)} that came nearest: neither its words "
        "nor its meaning are close to the question."
    )
    return WhyNot(id=sought, verdict=verdict, of=answer.total_candidates)

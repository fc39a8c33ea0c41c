"""Fetch context for a model: what is relevant to its work, or to a new session, in one fenced text.

Contexts are cached for a short time. Every write to the organisation, by any process, and every beginning or
end of a memory's validity invalidates them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from engram import limits
from engram.model.ids import ConversationKey, MessageKey, OrganizationId
from engram.model.memory import MemoryFilters
from engram.model.recall import (
    Context,
    ContextEntry,
    ContextRequest,
    NearMiss,
    OverviewReason,
)
from engram.model.search import Candidates, Kind, Loaded, ProfileName, SearchFilters
from engram.model.value import Value, replace
from engram.search.candidates import CandidateQuery, SearchSession, find
from engram.search.choose import RELEVANT_SCORE, Best, choose_best
from engram.search.context_block import Found, present
from engram.search.overview import choose_overview
from engram.search.pack import REPEATS_MAX
from engram.search.query import WORDS_ONLY
from engram.search.questions import general_reasons, names_topic
from engram.search.score import Calibrations, Scored
from engram.storage.search.overview import OverviewCandidate, OverviewQuery
from engram.text.folding import fold_spaces

_LASTING = ((), (WORDS_ONLY,))
"""Degradations of contexts that may be cached: those that will not have passed a minute later."""


class _Cached(NamedTuple):
    context: Context
    revision: Hashable
    until: datetime


class ContextCache:
    """LRU cache of contexts by organisation and request."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[OrganizationId, ContextRequest], _Cached] = OrderedDict()

    async def fetch(self, request: ContextRequest, session: SearchSession) -> Context:
        """Return what is relevant to a model's work, within its token budget."""
        key = session.store.organization_id, request
        revision = await session.store.revision(now=session.at)
        cached = self._cached.get(key)
        if cached is not None and cached.revision == revision and session.at < cached.until:
            self._cached.move_to_end(key)
            return cached.context
        context = await fetch_context(request, session)
        is_small = len(context.context) <= limits.CONTEXT_CHARACTERS_KEPT
        if is_small and context.degraded in _LASTING:
            until = session.at + timedelta(seconds=limits.CONTEXT_KEPT_S)
            self._cached[key] = _Cached(context, revision, until)
            self._cached.move_to_end(key)
            while len(self._cached) > limits.CONTEXTS_KEPT:
                self._cached.popitem(last=False)
        return context


async def fetch_context(request: ContextRequest, session: SearchSession) -> Context:
    """Find the best entries for a query, or for a new session, and fence them within the budget."""
    if request.query is None:
        return await present(await _overview(request, session, asked=frozenset()), request)
    found = await _search(request.query, request, session)
    asked = None if request.min_score is not None else general_reasons(request.query)
    if asked is not None:
        found = _united(found, await _overview(request, session, asked=asked), limit=request.top_k)
    return await present(found, request)


class _Choice(Value):
    """The best candidates, or the nearest misses if none is good enough."""

    best: Best
    misses: Sequence[Scored]
    below_cut: int

    @property
    def candidates(self) -> Candidates:
        return self.best.candidates

    @property
    def messages(self) -> list[MessageKey]:
        """Return the messages to read."""
        return [item.key for item in (*self.best.ranked, *self.misses)]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return the conversations of those messages."""
        return list(dict.fromkeys(item.conversation for item in (*self.best.ranked, *self.misses)))

    @property
    def whole_tokens_max(self) -> None:
        """Return no bound: a context cuts long texts itself."""


async def _search(text: str, request: ContextRequest, session: SearchSession) -> Found:
    """Return the entries that are relevant to a query."""
    category = request.category_filter
    categories = () if category is None else (category,)
    query = CandidateQuery(
        text=text,
        filters=SearchFilters(project=request.project, memory=MemoryFilters(categories=categories)),
        kinds=request.kinds,
        asked_at=request.asked_at or session.at,
    )
    choose = partial(_choose, profile=query.profile, request=request, is_topic=names_topic(text))
    choice, loaded, degraded = await find(query, session, choose=choose)
    entries = _each_text_once(_entry(item, loaded) for item in choice.best.ranked)
    return Found(
        entries=entries[: request.top_k],
        below_cut=choice.below_cut,
        nearest=tuple(_near_miss(item, loaded) for item in choice.misses),
        degraded=degraded,
    )


def _choose(
    candidates: Candidates,
    calibrations: Calibrations,
    *,
    profile: ProfileName,
    request: ContextRequest,
    is_topic: bool,
    now: int,
) -> _Choice:
    best = choose_best(
        candidates,
        calibrations,
        profile=profile,
        limit=request.top_k,
        score_min=request.min_score,
        now=now,
        is_topic=is_topic,
        repeats_max=REPEATS_MAX,
    )
    cut = RELEVANT_SCORE if request.min_score is None else request.min_score
    ranked = best.scoring.rank()
    misses = [] if best.ranked else ranked[: limits.CONTEXT_MISSES]
    return _Choice(best=best, misses=misses, below_cut=sum(each < cut for each in ranked.scores))


async def _overview(
    request: ContextRequest, session: SearchSession, *, asked: frozenset[OverviewReason]
) -> Found:
    """Return what a new session should know."""
    query = OverviewQuery(
        project=request.project,
        category=request.category_filter,
        kinds=request.kinds,
        now=session.now,
    )
    choose = partial(choose_overview, limit=request.top_k, asked=asked)
    choice, loaded = await session.store.overview(query, choose=choose)
    kind: Kind = "note" if "note" in request.kinds else "document"
    entries = _each_text_once(
        replace(
            _entry(item, loaded),
            reason=item.reason,
            score=None,
            **({"kind": kind} if item.conversation in loaded.memories else {}),
        )
        for item in choice.candidates
    )
    return Found(entries=entries, projects=choice.projects if request.project is None else ())


def _united(found: Found, overview: Found, *, limit: int) -> Found:
    """Add what a general question found by its words to an overview, behind what is critical."""
    critical = [each for each in overview.entries if each.reason == "critical"]
    relevant = found.entries[: (limit + 1) // 2]
    entries = {each.id: each for each in (*overview.entries, *relevant)}
    order = dict.fromkeys(each.id for each in (*critical, *relevant, *overview.entries))
    return replace(
        found,
        entries=_each_text_once(entries[each] for each in order)[:limit],
        nearest=(),
        projects=overview.projects,
    )


def _each_text_once(entries: Iterable[ContextEntry]) -> list[ContextEntry]:
    """Return the entries without those whose text an earlier one has."""
    first: dict[str, ContextEntry] = {}
    for each in entries:
        first.setdefault(fold_spaces(each.content), each)
    return list(first.values())


def _entry(item: Scored | OverviewCandidate, loaded: Loaded) -> ContextEntry:
    score = item.score if isinstance(item, Scored) else None
    memory = loaded.memories.get(item.conversation)
    if memory is not None:
        chunk = loaded.messages.get(item.key)
        return ContextEntry(
            kind="note" if chunk is None else "document",
            id=memory.id,
            content=memory.content if chunk is None else chunk.content,
            score=score,
            date=memory.valid_from or memory.created_at,
            category=memory.category,
            source=memory.source,
            project=memory.project,
        )
    message = loaded.messages[item.key]
    conversation = loaded.conversations[item.conversation]
    return ContextEntry(
        kind="conversation",
        id=message.id,
        content=message.content,
        score=score,
        date=message.occurred_at or message.created_at,
        source=message.name or message.role,
        conversation_id=conversation.id,
        project=conversation.project,
    )


def _near_miss(item: Scored, loaded: Loaded) -> NearMiss:
    entry = _entry(item, loaded)
    return NearMiss(
        kind=entry.kind, id=entry.id, date=entry.date, category=entry.category, score=item.score
    )

"""Fetch context for a model: what is relevant to its work, packed into one fenced text.

Contexts are cached for a short time. Every write to the organisation, by any process, and every beginning or
end of a memory's validity invalidates them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from engram import limits
from engram.clock import format_time
from engram.model.ids import OrganizationId
from engram.model.memory import MemoryFilters
from engram.model.recall import Context, ContextEntry, ContextRequest
from engram.model.search import Loaded, SearchFilters
from engram.model.value import replace
from engram.search.candidates import CandidateQuery, SearchSession, find
from engram.search.choose import choose_best
from engram.search.query import WORDS_ONLY
from engram.search.score import Scored
from engram.text.fence import FencedText, fence
from engram.yielding import offload

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
    """Find the best entries for a query and fence them, within the token budget."""
    category = request.category_filter
    categories = () if category is None else (category,)
    query = CandidateQuery(
        text=request.query,
        filters=SearchFilters(memory=MemoryFilters(categories=categories)),
        kinds=request.kinds,
        asked_at=request.asked_at or session.at,
    )
    choose = partial(
        choose_best, profile=query.profile, limit=request.top_k, score_min=request.min_score
    )
    best, loaded, degraded = await find(query, session, choose=choose)
    entries = [_entry(item, loaded) for item in best.ranked]
    context = await offload(
        partial(_fenced, entries, token_budget=request.token_budget),
        characters=sum(len(entry.content) for entry in entries),
    )
    return replace(context, degraded=degraded)


def _entry(item: Scored, loaded: Loaded) -> ContextEntry:
    memory = loaded.memories.get(item.conversation)
    if memory is not None:
        chunk = loaded.messages.get(item.key)
        return ContextEntry(
            kind="note" if chunk is None else "document",
            id=memory.id,
            content=memory.content if chunk is None else chunk.content,
            score=item.score,
            date=memory.valid_from or memory.created_at,
            category=memory.category,
            source=memory.source,
        )
    message = loaded.messages[item.key]
    return ContextEntry(
        kind="conversation",
        id=message.id,
        content=message.content,
        score=item.score,
        date=message.occurred_at or message.created_at,
        source=message.name or message.role,
        conversation_id=loaded.conversations[item.conversation].id,
    )


def _fenced(entries: list[ContextEntry], *, token_budget: int) -> Context:
    texts = [FencedText(attributes=_attributes(entry), content=entry.content) for entry in entries]
    fenced = fence(texts, token_budget=token_budget)
    return Context(
        context=fenced.text,
        entries=tuple(
            replace(entry, content=entry.content[:shown], truncated=shown < len(entry.content))
            for entry, shown in zip(entries, fenced.shown, strict=False)
        ),
        used_tokens=fenced.used_tokens,
        omitted=fenced.omitted,
    )


def _attributes(entry: ContextEntry) -> dict[str, str]:
    """Return the attributes of an entry's XML element."""
    given = {
        "id": entry.id,
        "conversation_id": entry.conversation_id,
        "category": entry.category,
        "source": entry.source,
        "date": format_time(entry.date),
        "score": f"{entry.score:.2f}",
    }
    return {name: value for name, value in given.items() if value is not None}

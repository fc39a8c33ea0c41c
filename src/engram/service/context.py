"""Fetching context for a model: what is relevant to its work, as one fenced text.

A context is remembered for a short time. Every write to the organisation, of this process or of
another, and every beginning or end of a memory's time makes it forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from engram import limits
from engram.clock import format_time
from engram.model.access import Principal
from engram.model.context import Context, ContextEntry, ContextRequest
from engram.model.ids import OrganizationId
from engram.model.memory import MemoryFilters
from engram.model.search import Loaded, SearchFilters
from engram.offload import offload
from engram.search.question import WORDS_ONLY
from engram.service.searching import Opened, Searching
from engram.text.fence import FencedText, fence

if TYPE_CHECKING:
    from engram.search.score import Scored

_LASTING = ((), (WORDS_ONLY,))
"""What may be missing from a context that is remembered: what will be missing a minute later too."""


class Contexts:
    """The use case `fetch_context`."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching
        self._kept = _KeptContexts()

    async def fetch_context(self, principal: Principal, request: ContextRequest) -> Context:
        """Return what is relevant to a model's work, within its token budget."""
        async with self._searching.open(principal) as opened:
            key = principal.organization_id, request
            revision = await opened.store.revision(now=opened.at)
            context = self._kept.find(key, revision=revision, at=opened.at)
            if context is None:
                context = await self._fetch(opened, request)
                self._kept.keep(key, context, revision=revision, at=opened.at)
        return context

    async def _fetch(self, opened: Opened, request: ContextRequest) -> Context:
        from engram.search.choose import choose_best  # noqa: PLC0415 brings NumPy
        from engram.search.find import Sought, find  # noqa: PLC0415 brings NumPy

        sought = Sought(query=request.query, filters=_filters(request), kinds=request.kinds)
        choose = partial(
            choose_best,
            profile=sought.profile,
            limit=request.top_k,
            score_min=request.min_score,
            now=opened.now,
        )
        best, loaded, degraded = await find(
            sought, opened.store, embed=opened.embed, now=opened.now, choose=choose
        )
        entries = [_entry(item, loaded) for item in best.ranked]
        context = await offload(
            partial(_fenced, entries, token_budget=request.token_budget),
            characters=sum(len(entry.content) for entry in entries),
        )
        return replace(context, degraded=(*degraded, *self._searching.missing(loaded.pending)))


def _filters(request: ContextRequest) -> SearchFilters:
    category = request.category_filter
    return SearchFilters(memory=MemoryFilters(categories=() if category is None else (category,)))


def _entry(item: Scored, loaded: Loaded) -> ContextEntry:
    memory = loaded.memories.get(item.conversation)
    if memory is not None:
        chunk = loaded.messages.get(item.key)
        return ContextEntry(
            kind="note" if chunk is None else "document",
            id=memory.id,
            content=memory.content if chunk is None else chunk.content,
            is_cut=False,
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
        is_cut=False,
        score=item.score,
        date=message.occurred_at or message.created_at,
        source=message.name or message.role,
        conversation_id=loaded.conversations[item.conversation].id,
    )


def _fenced(entries: list[ContextEntry], *, token_budget: int) -> Context:
    texts = [FencedText(attributes=_attributes(entry), content=entry.content) for entry in entries]
    fenced = fence(texts, token_budget=token_budget)
    return Context(
        text=fenced.text,
        entries=tuple(
            replace(entry, content=entry.content[:shown], is_cut=shown < len(entry.content))
            for entry, shown in zip(entries, fenced.shown, strict=False)
        ),
        used_tokens=fenced.used_tokens,
        omitted=fenced.omitted,
    )


def _attributes(entry: ContextEntry) -> dict[str, str]:
    """Return what the fence says of an entry."""
    given = {
        "id": entry.id,
        "conversation_id": entry.conversation_id,
        "category": entry.category,
        "source": entry.source,
        "date": format_time(entry.date),
        "score": f"{entry.score:.2f}",
    }
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Kept:
    context: Context
    revision: Hashable
    until: datetime


_Key = tuple[OrganizationId, ContextRequest]


class _KeptContexts:
    """Contexts fetched lately; those not asked for longest give way to others."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()

    def find(self, key: _Key, *, revision: Hashable, at: datetime) -> Context | None:
        """Return what was kept, if it is what would be fetched now."""
        kept = self._kept.get(key)
        if kept is None or kept.revision != revision or kept.until <= at:
            return None
        self._kept.move_to_end(key)
        return kept.context

    def keep(self, key: _Key, context: Context, *, revision: Hashable, at: datetime) -> None:
        """Remember a context, unless something is missing from it that may soon be there."""
        is_small = len(context.text) <= limits.CONTEXT_CHARACTERS_KEPT
        if not is_small or context.degraded not in _LASTING:
            return
        until = at + timedelta(seconds=limits.CONTEXT_KEPT_S)
        self._kept[key] = _Kept(context, revision, until)
        self._kept.move_to_end(key)
        while len(self._kept) > limits.CONTEXTS_KEPT:
            self._kept.popitem(last=False)

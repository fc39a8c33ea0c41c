"""The answer of `fetch_context`."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.context import Context, ContextEntry
from engram.model.memory import Category
from engram.model.search import Kind


class ContextEntryView(TypedDict):
    """What is known of an entry; its text stands in the fence, and nowhere else."""

    kind: Kind
    id: str
    score: float
    date: str
    source: str
    category: NotRequired[Category]
    conversation_id: NotRequired[str]
    truncated: NotRequired[Literal[True]]


class ContextFetched(TypedDict):
    context: str
    entries: list[ContextEntryView]
    used_tokens: int
    omitted: int
    degraded: list[str]


def context_fetched(context: Context) -> ContextFetched:
    return {
        "context": context.text,
        "entries": [_entry_view(entry) for entry in context.entries],
        "used_tokens": context.used_tokens,
        "omitted": context.omitted,
        "degraded": list(context.degraded),
    }


def _entry_view(entry: ContextEntry) -> ContextEntryView:
    view: ContextEntryView = {
        "kind": entry.kind,
        "id": entry.id,
        "score": round(entry.score, 4),
        "date": format_time(entry.date),
        "source": entry.source,
    }
    if entry.category is not None:
        view["category"] = entry.category
    if entry.conversation_id is not None:
        view["conversation_id"] = entry.conversation_id
    if entry.is_cut:
        view["truncated"] = True
    return view

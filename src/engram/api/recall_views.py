"""The answer of a recall, handles, results or ids alone, and its lean text."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from engram.api.lean import CUT_MARK, LeanText, add_whole
from engram.api.memories import Degraded
from engram.api.memory_views import READ_ALL, MemoryView, memory_head, summary_of
from engram.model.ids import ChunkId, MemoryId
from engram.model.memory import MemoryType, StorageMode
from engram.model.recall import ConnectedMemory, Recalled, RecalledMemory, RecallShape
from engram.model.value import INTERNAL, Score, Value
from engram.text.quoting import quote_after
from engram.text.tokens import count_tokens


class HandleView(Value, omit_defaults=True):
    """A memory by its summary; its text is fetched separately."""

    id: MemoryId
    project: str
    summary: str
    tags: tuple[str, ...]
    score: Score
    storage_mode: StorageMode
    chunk_count: int
    bytes: int
    is_handle: Literal[True]
    fetch_hint: str
    superseded_by: tuple[MemoryId, ...] = ()


class BriefView(Value):
    """A memory in one line."""

    id: MemoryId
    project: str
    memory_type: MemoryType
    summary: str


class ConnectedView(Value):
    """A memory that is related to a recalled one."""

    memory: BriefView
    rel_type: str
    direction: Literal["outgoing", "incoming"]
    strength: float
    hops: int


class RecalledView(Value, omit_defaults=True):
    """A recalled memory, with its score and how it came about."""

    memory: MemoryView
    score: Score
    score_breakdown: Mapping[str, float]
    chunk_count: int
    matched_chunk_id: ChunkId
    matched_chunk_index: int
    connected: tuple[ConnectedView, ...]
    matched_chunk: str | None = None
    connected_omitted: int = 0
    superseded_by: tuple[MemoryId, ...] = ()


class ConflictView(Value):
    """A memory that contradicts a recalled one."""

    memory: BriefView
    contradicts_id: MemoryId
    strength: float


NOT_SENT = Recalled(event_id="", results=(), conflicts=(), total_candidates=0, pending=0)
"""What a client has instead of what the answer was made of."""


class MemoriesRecalled(Value, omit_defaults=True):
    """What was recalled, best first."""

    count: int
    total_candidates: int
    pending: int
    truncated: bool
    degraded: Degraded
    handles: tuple[HandleView, ...] | None = None
    results: tuple[RecalledView, ...] | None = None
    ids: tuple[MemoryId, ...] | None = None
    fetch_hint: str | None = None
    event_id: str | None = None
    feedback_hint: str | None = None
    conflicting_results: tuple[ConflictView, ...] | None = None
    conflict_count: int | None = None
    warnings: tuple[str, ...] = ()
    note: str | None = None
    """Set if nothing is relevant."""
    found: Annotated[Recalled, INTERNAL] = NOT_SENT
    shape: Annotated[RecallShape, INTERNAL] = RecallShape()


NEAREST = 3
"""Memories that are named where none is relevant."""


class _Line(NamedTuple):
    text: str
    is_memory: bool = False


def recalled_text(answer: MemoriesRecalled, token_budget: int) -> str:
    """Return the memories that answer, best first; if none does, one line that names the nearest."""
    text = LeanText(token_budget)
    if answer.warnings:
        text.add("; ".join(answer.warnings))
    if answer.event_id is not None:
        text.add(f"event_id={answer.event_id}")
    found = answer.found
    if answer.note is not None:
        return text.finish([_nearest(answer.note, found), *_notes(answer)])
    if answer.shape.mode == "id_only":
        shown = add_whole(text, [each.memory.id for each in found.results])
        return text.finish([*_left_out(shown, answer.count), *_notes(answer)])
    lines = _lines(found, answer.shape, text.left)
    shown_ids = {each.memory.id for each in found.results}
    lines += [_Line(_conflict(each, shown_ids)) for each in answer.conflicting_results or ()]
    fitting = text.add_shared([line.text for line in lines])
    shown = sum(line.is_memory for line in lines[:fitting])
    is_cut = text.is_cut or any(_is_brief(each, answer.shape) for each in found.results[:shown])
    further = [READ_ALL] if is_cut else []
    return text.finish([*_left_out(shown, answer.count), *further, *_notes(answer)])


def _nearest(note: str, found: Recalled) -> str:
    ids = [each.memory.id for each in found.results[:NEAREST]]
    return f"{note}; nearest: {', '.join(ids)} (memory_fetch reads them)" if ids else note


def _lines(found: Recalled, shape: RecallShape, room: int) -> list[_Line]:
    """Return the lines of memories and what is connected with each."""
    lines = [line for each in found.results for line in _lines_of(each, shape, is_whole=True)]
    if sum(count_tokens(line.text) for line in lines) <= room:
        return lines
    return [line for each in found.results for line in _lines_of(each, shape, is_whole=False)]


def _lines_of(each: RecalledMemory, shape: RecallShape, *, is_whole: bool) -> Iterator[_Line]:
    """Yield the line of a memory; if not all can be whole, with the part of it that matched."""
    head, content = memory_head(each.memory), _content(each, shape, is_whole=is_whole)
    if superseded := ", ".join(each.superseded_by):
        head += f", superseded by {superseded}"
    is_part = content is not each.memory.content and content == each.matched.text
    if is_part and each.chunk_count > 1:
        head += f", part {each.matched.index + 1} of {each.chunk_count}"
        content += CUT_MARK
    elif _is_brief(each, shape):
        content = content.removesuffix(" …") + CUT_MARK
    yield _Line(quote_after(f"{head}:", content), is_memory=True)
    for connected in each.connected:
        if connected.hops <= shape.hops:
            yield _Line(_connected(connected))


def _content(each: RecalledMemory, shape: RecallShape, *, is_whole: bool) -> str:
    if shape.mode != "full" or shape.detail == "summary":
        return summary_of(each.memory)
    if shape.detail == "full" and (is_whole or each.chunk_count == 1):
        return each.memory.content
    return each.matched.text or ""


def _is_brief(each: RecalledMemory, shape: RecallShape) -> bool:
    """Return True if a memory is shown by a summary that leaves something out."""
    is_summary = shape.mode != "full" or shape.detail == "summary"
    return is_summary and summary_of(each.memory) != " ".join(each.memory.content.split())


def _connected(other: ConnectedMemory) -> str:
    relation = f"<- {other.relation_type}" if other.is_source else f"-> {other.relation_type}"
    return quote_after(f"{relation} {memory_head(other.memory)}:", summary_of(other.memory))


def _conflict(conflict: ConflictView, shown_ids: Container[MemoryId]) -> str:
    """Return which memories contradict each other, with the text of one that is not shown."""
    other = conflict.memory
    pair = f"{other.id} contradicts {conflict.contradicts_id}"
    return pair if other.id in shown_ids else quote_after(f"{pair}:", other.summary)


def _left_out(shown: int, count: int) -> list[str]:
    if shown == count:
        return []
    return [f"{count - shown} more did not fit: raise token_budget"]


def _notes(answer: MemoriesRecalled) -> list[str]:
    notes = [f"pending: {answer.pending}"] if answer.pending else []
    return notes + ([f"degraded: {answer.degraded.reason}"] if answer.degraded.reason else [])

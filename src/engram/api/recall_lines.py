"""The lean text of a recall: the memories that answer, what replaces or contradicts them, or silence."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

from engram.api.lean import CUT_MARK, LeanText, add_whole
from engram.api.memory_lines import READ_ALL, memory_head, summary_of
from engram.api.recall_views import ConflictView, MemoriesRecalled
from engram.model.ids import MemoryId
from engram.model.recall import ConnectedMemory, Recalled, RecalledMemory, RecallShape
from engram.text.quoting import quote_after
from engram.text.tokens import count_tokens

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

"""Decide where the chunk ends that begins with a window of a document's text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from engram.limits import DOCUMENT_CHUNK_CHARACTERS
from engram.text.blocks import Block
from engram.text.cuts import last_cut, last_line_end, paragraph_ends
from engram.text.document_state import ChunkerState
from engram.text.headings import Closing, Heading, Mark, Opening

SECTION_LEVEL_MAX = 2
"""Headings of these levels begin a chunk; deeper ones are told in its path."""

SHORT_SECTION_CHARACTERS = 200
"""Sections below this count as short."""


@dataclass(frozen=True, slots=True)
class Window:
    """The beginning of what is left of a document: a chunk at its longest, and a character more.

    Places are counted from the window's first character.
    """

    text: str
    lead: tuple[Heading, ...]
    """The headings the chunk begins with, each deeper than the one before and nothing between."""
    lead_end: int
    section: int | None
    """Where the next section begins."""
    parts: tuple[tuple[int, int], ...]
    """The ranges of the other headings before that."""
    verbatim: tuple[tuple[int, int], ...]
    """The ranges in which lines are code, HTML or front matter."""


def open_window(
    text: str, marks: Iterable[Mark], state: ChunkerState, *, is_splitting_short: bool
) -> Window:
    """Return the window on a text that begins where `state` says; `marks` begin there as well."""
    offset = state.offset
    lead = tuple(_lead(text, marks, offset))
    lead_end = lead[-1].end if lead else offset
    shortest = 0 if is_splitting_short else SHORT_SECTION_CHARACTERS
    inside: list[Mark] = []
    section = None
    for mark in takewhile(lambda each: each.start <= offset + DOCUMENT_CHUNK_CHARACTERS, marks):
        if mark.start >= max(lead_end, offset + shortest) and _begins_section(mark):
            section = mark.start - offset
            break
        inside.append(mark)
    parts = [
        (mark.start - offset, mark.end - offset)
        for mark in inside
        if isinstance(mark, Heading) and mark.start >= lead_end
    ]
    verbatim = _verbatim(inside, state.scan.block, offset)
    return Window(text, lead, lead_end - offset, section, tuple(parts), tuple(verbatim))


def chunk_length(window: Window) -> int:
    """Return how many characters of a window are the next chunk: as many whole parts as fit."""
    if window.section is not None:
        return window.section
    text = window.text
    if len(text) <= DOCUMENT_CHUNK_CHARACTERS:
        return len(text)
    limit = DOCUMENT_CHUNK_CHARACTERS - text.startswith("\r\n", DOCUMENT_CHUNK_CHARACTERS - 1)
    cuts = _paragraph_cuts(window, limit)
    if cuts:
        return max([cut for cut in cuts if not _is_verbatim(window, cut)] or cuts)
    return _cut_paragraph(window, limit)


def _lead(text: str, marks: Iterable[Mark], offset: int) -> Iterator[Heading]:
    end = level = 0
    for mark in marks:
        if not isinstance(mark, Heading) or mark.level <= level:
            return
        is_next = not text[end : mark.start - offset].strip()
        if not is_next or mark.end - offset > DOCUMENT_CHUNK_CHARACTERS:
            return
        yield mark
        end, level = mark.end - offset, mark.level


def _begins_section(mark: Mark) -> bool:
    return isinstance(mark, Heading) and mark.level <= SECTION_LEVEL_MAX


def _verbatim(marks: Iterable[Mark], block: Block | None, offset: int) -> Iterator[tuple[int, int]]:
    start = None if block is None else -1
    for mark in marks:
        if isinstance(mark, Opening):
            start = mark.start - offset
        elif isinstance(mark, Closing) and start is not None:
            yield start, mark.end - offset
            start = None
    if start is not None:
        yield start, DOCUMENT_CHUNK_CHARACTERS + 1


def _paragraph_cuts(window: Window, limit: int) -> list[int]:
    """Return the ends of paragraphs; a heading stays with what stands under it."""
    cuts = [start for start, _ in window.parts if start <= limit]
    ends = [window.lead_end, *(end for _, end in window.parts)]
    for start, end in paragraph_ends(window.text, window.lead_end, limit):
        last = ends[bisect_right(ends, end) - 1]
        if window.text[last:start].strip():
            cuts.append(end)
    return cuts


def _cut_paragraph(window: Window, limit: int) -> int:
    """Return where a paragraph is cut that is longer than a chunk."""
    rest = window.text[window.lead_end : limit]
    start = limit - len(rest.lstrip())
    if start >= limit:
        return limit
    line = last_line_end(window.text, start, limit) if _is_verbatim(window, limit) else None
    return line or last_cut(window.text, start, limit)


def _is_verbatim(window: Window, cut: int) -> bool:
    return any(start < cut < end for start, end in window.verbatim)

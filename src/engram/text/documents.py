"""Split documents into chunks that join back to the text, as a stream that can be resumed.

A chunk belongs to one section (sections begin at headings of the first two levels) and has at most
`DOCUMENT_CHUNK_CHARACTERS` characters: as many whole paragraphs as fit, or a part of a longer one. Memory use
does not grow with the document, and another process can resume after any chunk.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from engram.limits import DOCUMENT_CHUNK_CHARACTERS, SHORT_SECTIONS_MAX
from engram.model.value import Value
from engram.text.markdown import (
    LINE_MAX,
    SLICE_CHARACTERS,
    START,
    Block,
    Closing,
    Heading,
    HeadingScanner,
    Mark,
    Opening,
    ScanState,
)

_NEWLINE = r"(?:\r\n|\r(?!\n)|\n)"
_BLANK_LINES = re.compile(rf"{_NEWLINE}(?:[ \t]*{_NEWLINE})+")
_SENTENCE = re.compile(
    # Possessive, with an optional space: a run of full stops is then scanned only once.
    "(?:(?P<stop>[.!?\u2026\u061f\u06d4\u0964]++)['\"\u201d\u2019\u00bb)\\]]*+"
    "|[\u3002\uff01\uff1f\uff61]++[\u300d\u300f\u201d\u2019\uff09)]*+)(?P<space>\\s*+)"
)
"""Possible sentence ends; after a `stop` there must be white space."""
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'])(?:[A-Za-z]|\d+|mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\.g|i\.e|cf|al|fig|eq|no|vol|pp?"
    r"|u\.s|u\.k|inc|ltd|corp|co|ave|blvd|dept|est|approx)$",
    re.IGNORECASE,
)
_ABBREVIATION_CHARACTERS = 8
_NEAR_CHARACTERS = 400
_WORD = re.compile(r"(?s).*[\s\u3001\uff0c\uff1b\uff1a]")
_CLUSTER_CHARACTERS_MAX = 64
"""Longer grapheme clusters are not writing and may be cut."""

_JOINER = "\u200d"


def paragraph_ends(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of blank lines, each including the line end before it."""
    return [match.span() for match in _BLANK_LINES.finditer(text, start, end)]


def last_cut(text: str, start: int, end: int) -> int:
    """Return the last good offset to cut at within a range, after its start.

    That is after a sentence, else after a line, else after a word; a word that fills the range is
    cut between two characters.
    """
    # Most texts have one near the end, which avoids searching the whole range.
    near = max(start, end - _NEAR_CHARACTERS)
    cut = _sentence_end(text, near, end) or _sentence_end(text, start, near)
    cut = cut or last_line_end(text, start, end)
    cut = cut or _word_end(text, near, end) or _word_end(text, start, near) or end
    return whole_character(text, start, cut)


def last_line_end(text: str, start: int, end: int) -> int | None:
    """Return the end of the last complete line of a range."""
    cut = max(text.rfind("\n", start, end), text.rfind("\r", start, end)) + 1
    return cut if cut > start else None


def whole_character(text: str, start: int, cut: int) -> int:
    """Return an offset moved back to the start of a grapheme cluster."""
    for earlier in range(cut, max(start, cut - _CLUSTER_CHARACTERS_MAX), -1):
        if not _is_inside(text, start, earlier):
            return earlier
    return cut


def _sentence_end(text: str, start: int, end: int) -> int | None:
    # One character more, so that a space right after the range still ends a sentence.
    for match in reversed(list(_SENTENCE.finditer(text, start, end + 1))):
        if match.start() < end and _is_sentence_end(text, match):
            return min(match.end(), end)
    return None


def _is_sentence_end(text: str, match: re.Match[str]) -> bool:
    if match["stop"] is None:
        return True
    is_plain = match["stop"] != "." or not _is_abbreviated(text, match.start())
    return bool(match["space"]) and is_plain


def _word_end(text: str, start: int, end: int) -> int | None:
    word = _WORD.match(text, start, end)
    return word.end() if word else None


def _is_abbreviated(text: str, stop: int) -> bool:
    before = text[max(0, stop - _ABBREVIATION_CHARACTERS) : stop]
    return _ABBREVIATION.search(before) is not None


def _is_inside(text: str, start: int, cut: int) -> bool:
    """Return True if a cut would split CRLF, an accented letter, a flag or a joined emoji."""
    if cut >= len(text):
        return False
    before, after = text[cut - 1], text[cut]
    if before in "\r\n":
        return before == "\r" and after == "\n"
    if after.isascii():
        return False
    if _JOINER in {before, after} or _is_extending(after):
        return True
    return _is_flag(before) and _is_flag(after) and _flags_before(text, start, cut) % 2 == 1


def _is_extending(character: str) -> bool:
    return (
        unicodedata.category(character) in {"Mn", "Mc", "Me"}
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags of regional flags
        or "\u1160" <= character <= "\u11ff"  # the later parts of a Hangul syllable
    )


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, start: int, cut: int) -> int:
    first = cut
    while first > start and _is_flag(text[first - 1]):
        first -= 1
    return cut - first


SECTION_LEVEL_MAX = 2
"""Headings up to this level begin a chunk; deeper ones only appear in its heading path."""

SHORT_SECTION_CHARACTERS = 200
"""Sections below this count as short; after `SHORT_SECTIONS_MAX` of them, sections share chunks."""

_LOOK_BACK = LINE_MAX + 1
"""Characters before a chunk that are read again on resuming, to tell what an underline belongs to."""

_LOOK_AHEAD = DOCUMENT_CHUNK_CHARACTERS + LINE_MAX + 2
"""Characters after a chunk's start that must be scanned first: an underline concerns lines above it."""

HeadingPath: TypeAlias = tuple[tuple[int, str], ...]
"""The level and title of each heading above a position."""


class ChunkerState(Value):
    """The state of a chunker after a chunk, from which it can be resumed."""

    chunks: int = 0
    """The number of chunks so far."""
    offset: int = 0
    """Where the next chunk begins, in characters."""
    offset_bytes: int = 0
    """The same offset in bytes of UTF-8."""
    read_from: int = 0
    """Where the text to feed on resuming begins, in characters: a little before the next chunk."""
    read_from_bytes: int = 0
    """The same offset in bytes of UTF-8."""
    path: HeadingPath = ()
    short_sections: int = 0
    """The number of short chunks so far."""
    scan: ScanState = START

    def to_json(self) -> str:
        """Serialize the state to JSON, to be stored."""
        values: dict[str, Any] = {
            name: getattr(self, name) for name in self.__struct_fields__ if name != "scan"
        }
        block = self.scan.block
        # The keys are those of states that are stored already.
        values["known_to"] = self.scan.mark_end
        values["paragraph"] = self.scan.paragraph
        values["block"] = None if block is None else [block.kind, block.length]
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> ChunkerState:
        """Parse the output of `to_json`."""
        values: dict[str, Any] = json.loads(text)
        block = values.pop("block")
        scan = ScanState(
            mark_end=values.pop("known_to"),
            paragraph=values.pop("paragraph"),
            block=None if block is None else Block(*block),
        )
        path = tuple((level, title) for level, title in values.pop("path"))
        return cls(**values, path=path, scan=scan)


BEGINNING = ChunkerState()
"""The state before the first chunk."""


class DocumentChunk(Value):
    """A range of a document, never empty."""

    index: int
    start: int
    end: int
    start_byte: int
    end_byte: int
    text: str
    headings: tuple[str, ...]
    """The titles of the headings above it, outermost first, including those it begins with."""
    opened: tuple[Heading, ...]
    """The headings within it."""
    after: ChunkerState
    """The state from which to resume after it."""


class DocumentChunker:
    """Splits a document into chunks, independently of the pieces it is fed."""

    def __init__(self, state: ChunkerState = BEGINNING) -> None:
        """Begin or resume; the text that is fed begins at the state's `read_from`."""
        self._state = state
        self._text = ""
        self._base = state.read_from
        self._marks: deque[Mark] = deque()
        before = state.offset - state.read_from
        self._scanner = HeadingScanner(state.scan, offset=state.offset, before=before)

    @property
    def state(self) -> ChunkerState:
        """Return the state from which to resume after the last chunk."""
        return self._state

    def feed(self, text: str) -> list[DocumentChunk]:
        """Return the chunks that more text cannot change."""
        return [chunk for piece in _slices(text) for chunk in self._feed_slice(piece)]

    def finish(self) -> list[DocumentChunk]:
        """Return the remaining chunks at the end of the document."""
        self._add(self._scanner.finish())
        found: list[DocumentChunk] = []
        while self._state.offset < self._base + len(self._text):
            found.append(self._take())
        return found

    def _feed_slice(self, piece: str) -> Iterator[DocumentChunk]:
        self._text += piece
        self._add(self._scanner.feed(piece))
        while self._scanner.scanned_to >= self._state.offset + _LOOK_AHEAD:
            yield self._take()
        surplus = self._state.offset - _LOOK_BACK - self._base
        if surplus > LINE_MAX:
            self._text = self._text[surplus:]
            self._base += surplus

    def _add(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            # A rule may turn out to be the text of a setext heading.
            while self._marks and self._marks[-1].start >= mark.start:
                self._marks.pop()
            self._marks.append(mark)

    def _take(self) -> DocumentChunk:
        """Return the next chunk and advance to its end."""
        before = self._state
        text, lead = self._next()
        marks = [*self._marks_before(before.offset + len(text))]
        opened = tuple(mark for mark in marks if isinstance(mark, Heading))
        self._state = after = self._state_after(text, marks, opened)
        path = _path_below(before.path, lead)
        return DocumentChunk(
            index=before.chunks,
            start=before.offset,
            end=after.offset,
            start_byte=before.offset_bytes,
            end_byte=after.offset_bytes,
            text=text,
            headings=tuple(title for _, title in path if title),
            opened=opened,
            after=after,
        )

    def _next(self) -> tuple[str, Iterable[Heading]]:
        """Return the text of the next chunk, and the headings it begins with."""
        start = self._state.offset - self._base
        window = _open_window(
            self._text[start : start + DOCUMENT_CHUNK_CHARACTERS + 1],
            self._marks,
            self._state,
            is_splitting_short=self._state.short_sections < SHORT_SECTIONS_MAX,
        )
        return window.text[: _chunk_length(window)], window.lead

    def _marks_before(self, end: int) -> Iterator[Mark]:
        while self._marks and self._marks[0].start < end:
            yield self._marks.popleft()

    def _state_after(
        self, text: str, marks: Iterable[Mark], opened: Iterable[Heading]
    ) -> ChunkerState:
        before, scan = self._state, self._state.scan
        for mark in marks:
            scan = scan.after(mark)
        offset, offset_bytes = before.offset + len(text), before.offset_bytes + _bytes_of(text)
        read_from = max(offset - _LOOK_BACK, 0)
        read_again = self._text[read_from - self._base : offset - self._base]
        return ChunkerState(
            chunks=before.chunks + 1,
            offset=offset,
            offset_bytes=offset_bytes,
            read_from=read_from,
            read_from_bytes=offset_bytes - _bytes_of(read_again),
            path=_path_below(before.path, opened),
            short_sections=before.short_sections + (len(text) < SHORT_SECTION_CHARACTERS),
            scan=scan,
        )


def chunk_name(chunk: DocumentChunk, document_name: str | None) -> str | None:
    """Return the name of a chunk: its headings, preceded in the first chunk by the document's name."""
    opening = [document_name] if document_name is not None and chunk.index == 0 else []
    return " > ".join([*opening, *chunk.headings]) or None


def chunk_document(text: str) -> list[DocumentChunk]:
    """Return the chunks of a whole document in order; an empty one has none."""
    chunker = DocumentChunker()
    return chunker.feed(text) + chunker.finish()


def _slices(text: str) -> Iterator[str]:
    for start in range(0, len(text), SLICE_CHARACTERS):
        yield text[start : start + SLICE_CHARACTERS]


def _path_below(path: HeadingPath, headings: Iterable[Heading]) -> HeadingPath:
    """Return the heading path after further headings."""
    for heading in headings:
        above = tuple(each for each in path if each[0] < heading.level)
        path = (*above, (heading.level, heading.title))
    return path


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


class _Window(NamedTuple):
    """The remaining text of a document, up to one character more than the longest chunk.

    Offsets are relative to its start.
    """

    text: str
    lead: tuple[Heading, ...]
    """The headings that the chunk begins with, each deeper than the last, with no text between."""
    lead_end: int
    section: int | None
    """The start of the next section."""
    parts: tuple[tuple[int, int], ...]
    """The ranges of other headings before it."""
    verbatim: tuple[tuple[int, int], ...]
    """The ranges of code, HTML and front matter."""


def _open_window(
    text: str, marks: Iterable[Mark], state: ChunkerState, *, is_splitting_short: bool
) -> _Window:
    """Return the window that begins at the state's offset, given the text and marks from there on."""
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
    return _Window(text, lead, lead_end - offset, section, tuple(parts), tuple(verbatim))


def _chunk_length(window: _Window) -> int:
    """Return the length of the next chunk: as many whole paragraphs of the window as fit."""
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


def _paragraph_cuts(window: _Window, limit: int) -> list[int]:
    """Return where the window can be cut between paragraphs; a heading stays with the text below."""
    cuts = [start for start, _ in window.parts if start <= limit]
    ends = [window.lead_end, *(end for _, end in window.parts)]
    for start, end in paragraph_ends(window.text, window.lead_end, limit):
        last = ends[bisect_right(ends, end) - 1]
        if window.text[last:start].strip():
            cuts.append(end)
    return cuts


def _cut_paragraph(window: _Window, limit: int) -> int:
    """Return where to cut a paragraph that is longer than a chunk."""
    rest = window.text[window.lead_end : limit]
    start = limit - len(rest.lstrip())
    if start >= limit:
        return limit
    line = last_line_end(window.text, start, limit) if _is_verbatim(window, limit) else None
    return line or last_cut(window.text, start, limit)


def _is_verbatim(window: _Window, cut: int) -> bool:
    return any(start < cut < end for start, end in window.verbatim)

"""Cut a document into chunks that join back to it, reading it in pieces.

A chunk belongs to one section (sections begin at headings of the first two levels) and has at most
`DOCUMENT_CHUNK_CHARACTERS` characters: as many paragraphs as fit, or a part of one that is longer. What is
kept in memory does not grow with the document, and reading may go on at any chunk in another process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engram.limits import DOCUMENT_CHUNK_CHARACTERS, SHORT_SECTIONS_MAX
from engram.text.blocks import LINE_MAX
from engram.text.chunk_window import (
    SHORT_SECTION_CHARACTERS,
    chunk_length,
    open_window,
)
from engram.text.document_state import BEGINNING, ChunkerState, HeadingPath
from engram.text.headings import SLICE_CHARACTERS, Heading, HeadingScanner, Mark

_LOOK_BACK = LINE_MAX + 1
"""Characters before a chunk that tell what an underline in it belongs to."""

_LOOK_AHEAD = DOCUMENT_CHUNK_CHARACTERS + LINE_MAX + 2
"""Characters from a chunk's start whose marks must be known: an underline speaks of lines above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChunk:
    """A range of a document's characters, never empty."""

    index: int
    start: int
    end: int
    start_byte: int
    end_byte: int
    text: str
    headings: tuple[str, ...]
    """The titles it stands under, the outermost first, with those it begins with."""
    opened: tuple[Heading, ...]
    """The headings in it."""
    after: ChunkerState
    """From where to go on after it."""

    @property
    def heading_path(self) -> str | None:
        """Return its headings in one line; None without any."""
        return " > ".join(self.headings) or None


class DocumentChunker:
    """Cuts a document that is fed in pieces; the chunks do not depend on the pieces."""

    def __init__(self, state: ChunkerState = BEGINNING) -> None:
        """Begin, or go on: what is fed first begins at the state's `read_from`."""
        self._state = state
        self._text = ""
        self._base = state.read_from
        self._marks: deque[Mark] = deque()
        before = state.offset - state.read_from
        self._scanner = HeadingScanner(state.scan, offset=state.offset, before=before)

    @property
    def state(self) -> ChunkerState:
        """Return from where to go on after the last chunk."""
        return self._state

    def feed(self, text: str) -> list[DocumentChunk]:
        """Return the chunks that are certain now."""
        return [chunk for piece in _slices(text) for chunk in self._feed_slice(piece)]

    def finish(self) -> list[DocumentChunk]:
        """Return the chunks that are left at the end of the document."""
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
            # A line that underlined nothing may itself be underlined.
            while self._marks and self._marks[-1].start >= mark.start:
                self._marks.pop()
            self._marks.append(mark)

    def _take(self) -> DocumentChunk:
        """Return the next chunk, and go on to its end."""
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
        """Return the text of the next chunk and the headings it begins with."""
        start = self._state.offset - self._base
        window = open_window(
            self._text[start : start + DOCUMENT_CHUNK_CHARACTERS + 1],
            self._marks,
            self._state,
            is_splitting_short=self._state.short_sections < SHORT_SECTIONS_MAX,
        )
        return window.text[: chunk_length(window)], window.lead

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
    """Return what a chunk is called: the headings above it, and with the first the document's name."""
    opening = [document_name] if document_name is not None and chunk.index == 0 else []
    return " > ".join([*opening, *chunk.headings]) or None


def chunk_document(text: str) -> list[DocumentChunk]:
    """Return the chunks of a document in order; an empty one has none."""
    chunker = DocumentChunker()
    return chunker.feed(text) + chunker.finish()


def _slices(text: str) -> Iterator[str]:
    for start in range(0, len(text), SLICE_CHARACTERS):
        yield text[start : start + SLICE_CHARACTERS]


def _path_below(path: HeadingPath, headings: Iterable[Heading]) -> HeadingPath:
    """Return the path below some headings, which stand one after the other below another path."""
    for heading in headings:
        above = tuple(each for each in path if each[0] < heading.level)
        path = (*above, (heading.level, heading.title))
    return path


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))

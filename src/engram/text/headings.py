"""Find the headings of a Markdown text that comes in pieces.

Headings are those of CommonMark at the beginning of a line, underlined ones too; lines of fenced or
indented code, of HTML and of front matter are none. No more than a few thousand characters are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from engram.limits import HEADING_CHARACTERS_MAX
from engram.text.blocks import (
    FRONT_MATTER_MAX,
    LINE_MAX,
    MARK,
    NO_PARAGRAPH,
    Block,
    front_matter,
    hashed_title,
    open_paragraph,
    opened_block,
    paragraph_after_underline,
)
from engram.yielding import yield_to_others

SLICE_CHARACTERS = 65_536
"""A long text is read in slices of this size, so that none is copied whole."""

_LINE_END = re.compile(r"\r\n?|\n|\Z")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a text, with the range of its characters."""

    start: int
    end: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a block begins in which nothing is a heading."""

    start: int
    end: int
    block: Block


@dataclass(frozen=True, slots=True)
class Closing:
    """Where such a block ends."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A line that would underline a heading, below something that is none."""

    start: int
    end: int
    paragraph: int | None
    """The paragraph that is open after it, as `open_paragraph` tells it."""


Mark: TypeAlias = Heading | Opening | Closing | Rule


@dataclass(frozen=True, slots=True)
class ScanState:
    """What is known of a text at one of its characters, for reading on from there."""

    known_to: int = 0
    """Where the last mark ends."""
    paragraph: int | None = None
    """The paragraph that is open there."""
    block: Block | None = None
    """The block that is open there."""

    def after(self, mark: Mark) -> ScanState:
        """Return the state after the next mark."""
        paragraph = mark.paragraph if isinstance(mark, Rule) else None
        block = mark.block if isinstance(mark, Opening) else None
        return ScanState(mark.end, paragraph, block)


START = ScanState()
"""Before the first character of a text."""


class HeadingScanner:
    """Finds the marks of a text in order, whatever pieces it comes in."""

    def __init__(self, state: ScanState = START, *, offset: int = 0, before: int = 0) -> None:
        """Begin at the character `offset`; the text that is fed begins `before` characters earlier."""
        # A line end before the text, so that its first line is a line like every other.
        self._text = "\n" if before == offset else ""
        self._base: int = offset - before - len(self._text)
        self._position: int = max(offset, state.known_to) - self._base
        self._state = state
        self._is_begun = offset > 0

    @property
    def scanned_to(self) -> int:
        """Return the character before which no further mark begins, but for underlined headings."""
        return self._base + self._position

    def feed(self, text: str) -> list[Mark]:
        """Return the marks that are certain now."""
        found: list[Mark] = []
        for start in range(0, len(text), SLICE_CHARACTERS):
            self._text += text[start : start + SLICE_CHARACTERS]
            found += self._scan(len(self._text) - LINE_MAX)
            self._drop()
        return found

    def finish(self) -> list[Mark]:
        """Return the marks that the end of the text makes certain."""
        return self._scan(len(self._text) + 1)

    def _scan(self, limit: int) -> list[Mark]:
        """Return the marks that begin before `limit`."""
        if not self._is_begun and self._is_to_wait(limit):
            return []
        found: list[Mark] = [] if self._is_begun else self._begin()
        while self._position < limit:
            yield_to_others()
            block = self._state.block
            pattern = MARK if block is None else block.end
            match = pattern.search(self._text, self._position - 1)
            if match is None or match.start() + 1 >= limit:
                self._position = min(limit, len(self._text))
                break
            found.append(self._mark(match) if block is None else self._closing(match))
            self._state = self._state.after(found[-1])
            self._position = self._state.known_to - self._base
        return found

    def _is_to_wait(self, limit: int) -> bool:
        """Say whether too little of a text has come to know whether it has front matter."""
        opening = self._text[1:8].lstrip("\ufeff")
        may_open = len(opening) < 3 or opening.startswith(("---", "+++"))
        return may_open and limit < min(FRONT_MATTER_MAX, len(self._text))

    def _begin(self) -> list[Mark]:
        self._is_begun = True
        block = front_matter(self._text)
        if block is None:
            return []
        opening = Opening(0, 3, block)
        self._state = self._state.after(opening)
        self._position = opening.end - self._base
        return [opening]

    def _mark(self, match: re.Match[str]) -> Mark:
        block = opened_block(match)
        if block is not None:
            return Opening(self._base + match.start() + 1, self._base + match.end(), block)
        return self._hashed(match) if match.lastgroup == "hashes" else self._underline(match)

    def _hashed(self, match: re.Match[str]) -> Heading:
        # One character less: an end that nothing shows yet must not pass for the text's.
        end = self._line_end(match.end(), match.start() + LINE_MAX - 1)
        title = hashed_title(self._text[match.end() : end].rstrip("\r\n"))
        return self._heading(match.start() + 1, end, level=len(match["hashes"]), title=title)

    def _underline(self, match: re.Match[str]) -> Heading | Rule:
        start, end = match.start() + 1, self._line_end(match.end(), match.end() + 2)
        paragraph = self._paragraph(start)
        first = max(self._base + start - LINE_MAX, 0)
        if paragraph is None or paragraph < first:
            words = self._text[start : match.end()]
            after = paragraph_after_underline(words, offset=self._base + start, since=paragraph)
            return Rule(self._base + start, self._base + end, after)
        title = " ".join(self._text[paragraph - self._base : start].split())
        level = 1 if "=" in match[0] else 2
        return self._heading(paragraph - self._base, end, level=level, title=title)

    def _heading(self, start: int, end: int, *, level: int, title: str) -> Heading:
        title = title[:HEADING_CHARACTERS_MAX].strip()
        return Heading(self._base + start, self._base + end, level, title)

    def _paragraph(self, underline: int) -> int | None:
        """Return the paragraph that is open where a line begins that may underline it."""
        known_to, since = self._state.known_to - self._base, self._state.paragraph
        if known_to < underline - LINE_MAX:
            known_to, since = underline - LINE_MAX, NO_PARAGRAPH
        if self._text[known_to - 1] not in "\r\n":
            known_to = self._line_end(known_to, underline)
        lines = self._text[known_to:underline]
        return open_paragraph(lines, offset=self._base + known_to, since=since)

    def _line_end(self, start: int, limit: int) -> int:
        """Return where a line ends, or the limit if it is longer."""
        end = _LINE_END.search(self._text, start, limit)
        return end.end() if end else limit

    def _closing(self, match: re.Match[str]) -> Closing:
        return Closing(self._base + match.start() + 1, self._base + match.end())

    def _drop(self) -> None:
        """Forget what no later mark can need."""
        surplus = self._position - LINE_MAX - 2
        if surplus > LINE_MAX:
            self._text = self._text[surplus:]
            self._base += surplus
            self._position -= surplus

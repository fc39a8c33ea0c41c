"""Scan Markdown for headings, as a stream that may arrive in pieces of any size.

Headings follow CommonMark: ATX and setext headings that begin a line, except within fenced or indented code,
HTML and front matter. Every rule inspects at most `LINE_MAX` characters, so only a few thousand are
buffered; longer marker lines and longer underlined paragraphs are plain text. Headings indented within a
list item are found too, because containers are not tracked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from engram.limits import HEADING_CHARACTERS_MAX
from engram.yielding import yield_to_others

SLICE_CHARACTERS = 65_536
"""Long texts are scanned in slices of this size, so that none is copied whole."""

LINE_MAX = 1_000
"""The longest marker line, and the longest underlined paragraph, in characters."""

FRONT_MATTER_MAX = 16_384
"""Front matter must end within so many characters, or it is not front matter."""

NO_PARAGRAPH = -1
"""The open block is a list, a quotation or too long: underlining it makes no heading."""

_LINE_END = re.compile(r"\r\n?|\n|\Z")
_NEWLINE = r"(?:\r\n|\r(?!\n)|\n)"
_AT_LINE_END = r"(?=[\r\n]|\Z)"
_INDENT = r"[\r\n]\ufeff? {0,3}"
_HTML_TAGS = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|"
    "dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|"
    "hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|"
    "search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
_RAW_TAGS = "script|pre|style|textarea"

_MARK = re.compile(
    rf"{_INDENT}(?:"
    r"(?P<hashes>#{1,6})(?=[ \t\r\n]|\Z)"
    rf"|(?P<fence>`{{3,90}})(?=[^`\r\n]{{0,800}}{_AT_LINE_END})|(?P<tildes>~{{3,90}})"
    rf"|(?P<underline>={{1,900}}|-{{1,900}})[ \t]{{0,90}}{_AT_LINE_END}"
    rf"|<(?:(?P<raw>{_RAW_TAGS})(?=[\s>]|\Z)|(?P<comment>!--)|(?P<instruction>\?)"
    rf"|(?P<cdata>!\[CDATA\[)|(?P<declaration>![a-z])|(?P<html>/?(?:{_HTML_TAGS})(?=[\s>]|/>|\Z)))"
    r")",
    re.IGNORECASE,
)
"""The line end before a line that opens a block or underlines a paragraph; the group tells which."""

_ENDS = {
    "raw": re.compile(rf"</(?:{_RAW_TAGS})>", re.IGNORECASE),
    "comment": re.compile(r"-->"),
    "instruction": re.compile(r"\?>"),
    "cdata": re.compile(r"\]\]>"),
    "declaration": re.compile(r">"),
    "html": re.compile(rf"{_NEWLINE}[ \t]{{0,900}}(?=[\r\n])"),
    "yaml": re.compile(rf"[\r\n](?:---|\.\.\.)[ \t]{{0,90}}{_AT_LINE_END}"),
    "toml": re.compile(rf"[\r\n]\+\+\+[ \t]{{0,90}}{_AT_LINE_END}"),
}
_MATTER = re.compile(
    rf"[\r\n]\ufeff?(?:(?P<yaml>---)|(?P<toml>\+\+\+))[ \t]{{0,90}}{_NEWLINE}(?=\S)"
)
_LINE = re.compile(rf"(?<![^\r\n])[^\r\n]*+{_NEWLINE}")
_BLANK = re.compile(rf"{_NEWLINE}[ \t]*{_NEWLINE}")
_CODE = re.compile(r" {4}| {0,3}\t")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})$")
_CONTAINER = re.compile(r" {0,3}(?:>|[-+*](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$))")
_INTERRUPTING = re.compile(r" {0,3}(?:>|[-+*][ \t]+\S|1[.)][ \t]+\S)")


class Block(NamedTuple):
    """A block that contains no headings: fenced code, HTML or front matter."""

    kind: str
    """The character of a fence, else a key of `_ENDS`."""
    length: int = 0
    """For a fence, the minimal length of the closing fence."""

    @property
    def end(self) -> re.Pattern[str]:
        """Return the pattern that ends the block; for a whole line it includes the line end before."""
        return _ENDS.get(self.kind) or _fence_end(self.kind, self.length)


class Heading(NamedTuple):
    """A heading, with its range in the text."""

    start: int
    end: int
    level: int
    title: str


class Opening(NamedTuple):
    """The beginning of a block that contains no headings."""

    start: int
    end: int
    block: Block


class Closing(NamedTuple):
    """The end of such a block."""

    start: int
    end: int


class Rule(NamedTuple):
    """An underline that does not make a heading."""

    start: int
    end: int
    paragraph: int | None
    """The paragraph that is open after it, as `_open_paragraph` returns it."""


Mark: TypeAlias = Heading | Opening | Closing | Rule


class ScanState(NamedTuple):
    """The state of a scan after a mark, from which it can be resumed."""

    mark_end: int = 0
    """The end of the last mark."""
    paragraph: int | None = None
    """The start of the paragraph that is open there; None without one, or `NO_PARAGRAPH`."""
    block: Block | None = None
    """The block that is open there."""

    def after(self, mark: Mark) -> ScanState:
        """Return the state after the next mark."""
        paragraph = mark.paragraph if isinstance(mark, Rule) else None
        block = mark.block if isinstance(mark, Opening) else None
        return ScanState(mark.end, paragraph, block)


START = ScanState()
"""The state before the first character of a text."""


class HeadingScanner:
    """Finds the marks of a text in order, independently of the pieces it is fed."""

    def __init__(self, state: ScanState = START, *, offset: int = 0, before: int = 0) -> None:
        """Resume at character `offset`; the text that is fed begins `before` characters earlier."""
        # Patterns expect a line end before each line, so the first line gets one too.
        self._text = "\n" if before == offset else ""
        self._base: int = offset - before - len(self._text)
        self._position: int = max(offset, state.mark_end) - self._base
        self._state = state
        self._is_begun = offset > 0

    @property
    def scanned_to(self) -> int:
        """Return the offset before which all marks are known, except for setext headings."""
        return self._base + self._position

    def feed(self, text: str) -> list[Mark]:
        """Return the marks that more text cannot change."""
        found: list[Mark] = []
        for start in range(0, len(text), SLICE_CHARACTERS):
            self._text += text[start : start + SLICE_CHARACTERS]
            found += self._scan(len(self._text) - LINE_MAX)
            self._drop()
        return found

    def finish(self) -> list[Mark]:
        """Return the remaining marks at the end of the text."""
        return self._scan(len(self._text) + 1)

    def _scan(self, limit: int) -> list[Mark]:
        """Return the marks that begin before `limit`."""
        if not self._is_begun and self._needs_more(limit):
            return []
        found: list[Mark] = [] if self._is_begun else self._begin()
        while self._position < limit:
            yield_to_others()
            block = self._state.block
            pattern = _MARK if block is None else block.end
            match = pattern.search(self._text, self._position - 1)
            if match is None or match.start() + 1 >= limit:
                self._position = min(limit, len(self._text))
                break
            found.append(self._mark(match) if block is None else self._closing(match))
            self._state = self._state.after(found[-1])
            self._position = self._state.mark_end - self._base
        return found

    def _needs_more(self, limit: int) -> bool:
        """Return True if too little text has arrived to tell whether it has front matter."""
        opening = self._text[1:8].lstrip("\ufeff")
        may_open = len(opening) < 3 or opening.startswith(("---", "+++"))
        return may_open and limit < min(FRONT_MATTER_MAX, len(self._text))

    def _begin(self) -> list[Mark]:
        self._is_begun = True
        block = _front_matter(self._text)
        if block is None:
            return []
        opening = Opening(0, 3, block)
        self._state = self._state.after(opening)
        self._position = opening.end - self._base
        return [opening]

    def _mark(self, match: re.Match[str]) -> Mark:
        block = _opened_block(match)
        if block is not None:
            return Opening(self._base + match.start() + 1, self._base + match.end(), block)
        return (
            self._atx_heading(match) if match.lastgroup == "hashes" else self._setext_heading(match)
        )

    def _atx_heading(self, match: re.Match[str]) -> Heading:
        # One character less, because `\Z` must not match at the end of the text fed so far.
        end = self._line_end(match.end(), match.start() + LINE_MAX - 1)
        title = _atx_title(self._text[match.end() : end].rstrip("\r\n"))
        return self._heading(match.start() + 1, end, level=len(match["hashes"]), title=title)

    def _setext_heading(self, match: re.Match[str]) -> Heading | Rule:
        start, end = match.start() + 1, self._line_end(match.end(), match.end() + 2)
        paragraph = self._open_paragraph(start)
        first = max(self._base + start - LINE_MAX, 0)
        if paragraph is None or paragraph < first:
            underline = self._text[start : match.end()]
            after = _paragraph_after_rule(underline, offset=self._base + start, since=paragraph)
            return Rule(self._base + start, self._base + end, after)
        title = " ".join(self._text[paragraph - self._base : start].split())
        level = 1 if "=" in match[0] else 2
        return self._heading(paragraph - self._base, end, level=level, title=title)

    def _heading(self, start: int, end: int, *, level: int, title: str) -> Heading:
        title = title[:HEADING_CHARACTERS_MAX].strip()
        return Heading(self._base + start, self._base + end, level, title)

    def _open_paragraph(self, underline: int) -> int | None:
        """Return the paragraph that is open before an underline at that index."""
        start, since = self._state.mark_end - self._base, self._state.paragraph
        if start < underline - LINE_MAX:
            start, since = underline - LINE_MAX, NO_PARAGRAPH
        if self._text[start - 1] not in "\r\n":
            start = self._line_end(start, underline)
        lines = self._text[start:underline]
        return _open_paragraph(lines, offset=self._base + start, since=since)

    def _line_end(self, start: int, limit: int) -> int:
        """Return the end of a line, or the limit if the line is longer."""
        end = _LINE_END.search(self._text, start, limit)
        return end.end() if end else limit

    def _closing(self, match: re.Match[str]) -> Closing:
        return Closing(self._base + match.start() + 1, self._base + match.end())

    def _drop(self) -> None:
        """Drop buffered text that no later mark depends on."""
        surplus = self._position - LINE_MAX - 2
        if surplus > LINE_MAX:
            self._text = self._text[surplus:]
            self._base += surplus
            self._position -= surplus


class Section(NamedTuple):
    """A heading and the text below it, up to the next heading."""

    start: int
    end: int
    heading: str
    """Empty before the first heading."""
    level: int
    """1 to 6; 0 before the first heading."""
    body: int
    """The end of the heading."""


def split_sections(text: str) -> list[Section]:
    """Split a text at its headings into sections that join back to it; an empty text has none."""
    found = [Heading(0, 0, 0, ""), *_headings(text), Heading(len(text), len(text), 0, "")]
    return [
        Section(each.start, following.start, each.title, each.level, each.end)
        for each, following in pairwise(found)
        if each.start < following.start
    ]


def _headings(text: str) -> Iterator[Heading]:
    scanner = HeadingScanner()
    for mark in (*scanner.feed(text), *scanner.finish()):
        if isinstance(mark, Heading):
            yield mark


def _opened_block(mark: re.Match[str]) -> Block | None:
    """Return the block that a match of `_MARK` opens; None if it is part of a heading."""
    group = str(mark.lastgroup)
    if group in {"hashes", "underline"}:
        return None
    if group in {"fence", "tildes"}:
        return Block(mark[group][0], len(mark[group]))
    return Block(group)


def _front_matter(text: str) -> Block | None:
    """Return the front matter at the beginning of a text, which is preceded by a line end."""
    opening = _MATTER.match(text)
    if opening is None:
        return None
    block = Block(str(opening.lastgroup))
    end = block.end.search(text, opening.end() - 1)
    return block if end is not None and end.end() < FRONT_MATTER_MAX else None


def _atx_title(line: str) -> str:
    """Return the title of an ATX heading, given the line after the opening hashes."""
    title = line.strip(" \t")
    without_hashes = title.rstrip("#")
    is_closed = not without_hashes or without_hashes[-1] in " \t"
    return without_hashes.rstrip(" \t") if is_closed else title


def _open_paragraph(text: str, *, offset: int, since: int | None) -> int | None:
    """Return the start of the paragraph that is open after whole lines.

    Args:
        offset: where the lines begin.
        since: the paragraph that was open before them.

    Returns:
        None without an open paragraph, `NO_PARAGRAPH` for a block that cannot become a heading.
    """
    start = 0
    for blank in _BLANK.finditer(text):
        start, since = blank.end(), None
    for line in _LINE.finditer(text, start):
        since = _after_line(line[0].rstrip("\r\n"), offset + line.start(), since)
    return since


def _paragraph_after_rule(underline: str, *, offset: int, since: int | None) -> int | None:
    """Return the paragraph that is open after an underline that makes no heading."""
    if _RULE.match(underline):
        return None
    if since is not None:
        return NO_PARAGRAPH
    return NO_PARAGRAPH if _CONTAINER.match(underline) else offset


def _after_line(line: str, offset: int, since: int | None) -> int | None:
    if _RULE.match(line) or not line.strip(" \t"):
        return None
    if since is not None:
        return NO_PARAGRAPH if _INTERRUPTING.match(line) else since
    if _CONTAINER.match(line):
        return NO_PARAGRAPH
    return None if _CODE.match(line) else offset


@lru_cache(maxsize=64)
def _fence_end(character: str, length: int) -> re.Pattern[str]:
    return re.compile(rf"[\r\n] {{0,3}}{character}{{{length},900}}[ \t]{{0,90}}{_AT_LINE_END}")

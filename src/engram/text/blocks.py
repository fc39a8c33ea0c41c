"""What of Markdown decides where a heading stands: its blocks, recognised line by line.

Every rule looks at no more than `LINE_MAX` characters, so that a text can be read in pieces. Longer
lines of Markdown's own marks, and longer underlined paragraphs, are text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

LINE_MAX = 1_000
"""Characters a line of marks, or a paragraph that is underlined, may have."""

FRONT_MATTER_MAX = 16_384
"""Characters within which front matter must end; else it is none."""

NO_PARAGRAPH = -1
"""What is open is a list, a quotation or too long: an underline below it makes no heading."""

_NEWLINE = r"(?:\r\n|\r(?!\n)|\n)"
_LINE_END = r"(?=[\r\n]|\Z)"
_INDENT = r"[\r\n]\ufeff? {0,3}"
_HTML_TAGS = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|"
    "dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|"
    "hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|"
    "search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
_RAW_TAGS = "script|pre|style|textarea"

MARK = re.compile(
    rf"{_INDENT}(?:"
    r"(?P<hashes>#{1,6})(?=[ \t\r\n]|\Z)"
    rf"|(?P<fence>`{{3,90}})(?=[^`\r\n]{{0,800}}{_LINE_END})|(?P<tildes>~{{3,90}})"
    rf"|(?P<underline>={{1,900}}|-{{1,900}})[ \t]{{0,90}}{_LINE_END}"
    rf"|<(?:(?P<raw>{_RAW_TAGS})(?=[\s>]|\Z)|(?P<comment>!--)|(?P<instruction>\?)"
    rf"|(?P<cdata>!\[CDATA\[)|(?P<declaration>![a-z])|(?P<html>/?(?:{_HTML_TAGS})(?=[\s>]|/>|\Z)))"
    r")",
    re.IGNORECASE,
)
"""The line end before a line that opens a block or underlines one; the group says which."""

_ENDS = {
    "raw": re.compile(rf"</(?:{_RAW_TAGS})>", re.IGNORECASE),
    "comment": re.compile(r"-->"),
    "instruction": re.compile(r"\?>"),
    "cdata": re.compile(r"\]\]>"),
    "declaration": re.compile(r">"),
    "html": re.compile(rf"{_NEWLINE}[ \t]{{0,900}}(?=[\r\n])"),
    "yaml": re.compile(rf"[\r\n](?:---|\.\.\.)[ \t]{{0,90}}{_LINE_END}"),
    "toml": re.compile(rf"[\r\n]\+\+\+[ \t]{{0,90}}{_LINE_END}"),
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


@dataclass(frozen=True, slots=True)
class Block:
    """A block in which no line is a heading: a fence, HTML or front matter."""

    kind: str
    """The character of a fence, else the name of what ends the block."""
    length: int = 0
    """Of a fence: how many characters must close it."""

    @property
    def end(self) -> re.Pattern[str]:
        """Return what ends the block; that of a line begins with the line end before it."""
        return _ENDS.get(self.kind) or _fence_end(self.kind, self.length)


def opened_block(mark: re.Match[str]) -> Block | None:
    """Return the block that a mark opens; None for one that makes a heading."""
    group = str(mark.lastgroup)
    if group in {"hashes", "underline"}:
        return None
    if group in {"fence", "tildes"}:
        return Block(mark[group][0], len(mark[group]))
    return Block(group)


def front_matter(text: str) -> Block | None:
    """Return the front matter that opens a text, which is given after a line end."""
    opening = _MATTER.match(text)
    if opening is None:
        return None
    block = Block(str(opening.lastgroup))
    end = block.end.search(text, opening.end() - 1)
    return block if end is not None and end.end() < FRONT_MATTER_MAX else None


def hashed_title(line: str) -> str:
    """Return the words of a heading from what stands after its opening hashes."""
    title = line.strip(" \t")
    without_hashes = title.rstrip("#")
    is_closed = not without_hashes or without_hashes[-1] in " \t"
    return without_hashes.rstrip(" \t") if is_closed else title


def open_paragraph(text: str, *, offset: int, since: int | None) -> int | None:
    """Return where the paragraph begins that is open after some whole lines, which begin at `offset`.

    `since` is the paragraph that was open before them. None says that there is none, and
    `NO_PARAGRAPH` that what is open cannot become a heading.
    """
    start = 0
    for blank in _BLANK.finditer(text):
        start, since = blank.end(), None
    for line in _LINE.finditer(text, start):
        since = _after_line(line[0].rstrip("\r\n"), offset + line.start(), since)
    return since


def paragraph_after_underline(underline: str, *, offset: int, since: int | None) -> int | None:
    """Return the paragraph that is open after an underline that underlines nothing."""
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
    return re.compile(rf"[\r\n] {{0,3}}{character}{{{length},900}}[ \t]{{0,90}}{_LINE_END}")

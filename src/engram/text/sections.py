"""Split a Markdown text at its headings into sections that join back to it.

Headings are those of CommonMark: underlined ones too, and no line of a fenced or indented block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Section:
    """A range of a text's characters: a heading and what stands under it up to the next one."""

    start: int
    end: int
    heading: str
    """Empty for what stands before the first heading."""
    level: int
    """1 to 6; 0 before the first heading."""
    body: int
    """Where the heading ends."""


def split_sections(text: str) -> list[Section]:
    """Return the sections of a text in order; an empty text has none."""
    lines = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
    found = [Section(0, 0, "", 0, 0)]
    for first, last, level, heading in _headings(text):
        end = lines[min(last, len(lines) - 1)]
        found.append(Section(lines[first], 0, heading, level, end))
    ends = [*(after.start for _, after in pairwise(found)), len(text)]
    return [
        Section(each.start, end, each.heading, each.level, each.body)
        for each, end in zip(found, ends, strict=True)
        if each.start < end
    ]


def _headings(text: str) -> list[tuple[int, int, int, str]]:
    """Return the first line, the line after, the level and the words of each heading."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 few texts are split

    # What stands in lines is of no interest, and would take most of the time.
    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    return [
        (opening.map[0], opening.map[1], int(opening.tag[1:]), inline.content)
        for opening, inline in pairwise(tokens)
        if opening.type == "heading_open" and opening.level == 0 and opening.map is not None
    ]

"""Lays text out in the columns of a terminal: nothing is cut, and nothing without a space is split."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

WORDS_COLUMNS_MIN = 18
"""A narrower column of text is hard to read: then each row becomes a list of its cells."""

_GAP = "  "
_PART = re.compile(" +|[^ ]+")
_STYLE = re.compile("\x1b\\[[0-9;]*m")
_WIDE = frozenset("WF")
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def width_of(text: str) -> int:
    """Return how many columns a text takes, without the codes of its styles."""
    plain = _STYLE.sub("", text)
    return len(plain) if plain.isascii() else sum(map(_character_width, plain))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def wrap_words(text: str, width: int, *, indent: str = "") -> list[str]:
    """Return the lines of a text wrapped at its spaces; `indent` begins all but the first.

    A word longer than a line has a line of its own, for the terminal to break.
    """
    if width_of(text) <= width:
        return [text]
    lines, used, spaces = [""], 0, ""
    for part in _PART.findall(text):
        if part.startswith(" "):
            spaces = part
            continue
        added = spaces + part
        if lines[-1].strip() and used + width_of(added) > width:
            added = indent + part
            lines.append("")
            used = 0
        lines[-1] += added
        used += width_of(added)
    return lines


def table_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None
) -> Iterator[tuple[bool, str]]:
    """Yield the lines of a table, and whether each is a heading; None is a width without end."""
    widths = [max(map(width_of, column)) for column in zip(headers, *rows, strict=True)]
    fitted = widths if width is None else _fit(widths, _spaced(headers, rows), width)
    if fitted is None:
        yield from _as_lists(headers, rows, width=width or 0)
        return
    for is_head, row in [(True, headers), *((False, row) for row in rows)]:
        for line in _row_lines(row, fitted):
            yield is_head, line


def _spaced(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[bool]:
    """Return for each column whether its cells have spaces to wrap at."""
    return [any(" " in cell for cell in column[1:]) for column in zip(headers, *rows, strict=True)]


def _fit(widths: Sequence[int], can_wrap: Sequence[bool], width: int) -> list[int] | None:
    """Return the widths of columns so that a row fits a line, or None if it cannot."""
    fitted = list(widths)
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(fitted) > room:
        wide = [
            size if may and size > WORDS_COLUMNS_MIN else 0
            for size, may in zip(fitted, can_wrap, strict=True)
        ]
        if not any(wide):
            return None
        fitted[wide.index(max(wide))] -= 1
    return fitted


def _row_lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    cells = [wrap_words(cell, size) for cell, size in zip(row, widths, strict=True)]
    for number in range(max(map(len, cells))):
        shown = (
            _padded(cell[number] if number < len(cell) else "", size)
            for cell, size in zip(cells, widths, strict=True)
        )
        yield _GAP.join(shown).rstrip()


def _padded(cell: str, size: int) -> str:
    return cell + " " * (size - width_of(cell))


def _as_lists(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, width: int
) -> Iterator[tuple[bool, str]]:
    """Yield each row as its first cell and a line for each of the others that is not empty."""
    label = max(map(width_of, headers[1:]), default=0)
    for first, *others in rows:
        yield True, first
        for header, cell in zip(headers[1:], others, strict=True):
            if cell:
                indent = " " * (len(_GAP) + label + len(_GAP))
                line = f"{_GAP}{_padded(header.lower(), label)}{_GAP}{cell}"
                yield from ((False, each) for each in wrap_words(line, width, indent=indent))

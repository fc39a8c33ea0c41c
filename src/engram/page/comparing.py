"""Two texts side by side, line by line, with the words marked in which changed lines differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from engram.model.value import Value
from engram.yielding import yield_to_others

LINES_MAX = 2_000
"""Lines of both texts together that are compared: the time grows with their square."""

LINE_CHARACTERS_MAX = 2_000
"""A longer line is shown as changed, without marks in it."""

CONTEXT = 3
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")

Side = Literal["same", "removed", "added", "changed", "gap"]


class Piece(Value):
    """A part of a line; marked if the other text does not have it."""

    text: str
    is_marked: bool = False


class Row(Value):
    """A line of the old text and the line of the new one beside it; None is no line."""

    kind: Side
    old_number: int | None = None
    new_number: int | None = None
    old: tuple[Piece, ...] | None = None
    new: tuple[Piece, ...] | None = None
    hidden: int = 0
    """Equal lines that a gap leaves out."""


class Comparison(Value):
    """What changed from one text to another."""

    rows: tuple[Row, ...]
    removed: int
    added: int
    is_too_long: bool = False
    """True if nothing was compared, because the texts have too many lines."""


def compare(old: str, new: str) -> Comparison:
    """Return the lines of two texts side by side; equal lines far from a change are left out."""
    before, after = old.split("\n"), new.split("\n")
    if len(before) + len(after) > LINES_MAX:
        return Comparison(rows=(), removed=0, added=0, is_too_long=True)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    rows = list[Row]()
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield_to_others()
        _add_gap(rows, group[0][1])
        for kind, old_start, old_end, new_start, new_end in group:
            olds = list(enumerate(before[old_start:old_end], old_start + 1))
            news = list(enumerate(after[new_start:new_end], new_start + 1))
            rows += map(_same, olds, news) if kind == "equal" else _changed(olds, news)
    if rows:
        last = max((row.old_number or 0 for row in rows), default=0)
        _add_gap(rows, len(before), after=last)
    return Comparison(
        rows=tuple(rows),
        removed=sum(row.kind in ("removed", "changed") for row in rows),
        added=sum(row.kind in ("added", "changed") for row in rows),
    )


def _add_gap(rows: list[Row], upto: int, *, after: int | None = None) -> None:
    """Add a row for the equal lines between the last one that is shown and `upto`."""
    shown = max((row.old_number or 0 for row in rows), default=0) if after is None else after
    if upto > shown:
        rows.append(Row(kind="gap", hidden=upto - shown))


Line = tuple[int, str]


def _same(old: Line, new: Line) -> Row:
    return Row(
        kind="same",
        old_number=old[0],
        new_number=new[0],
        old=(Piece(text=old[1]),),
        new=(Piece(text=new[1]),),
    )


def _changed(olds: Sequence[Line], news: Sequence[Line]) -> Iterator[Row]:
    for old, new in zip(olds, news, strict=False):
        marked = _marked(old[1], new[1])
        yield Row(
            kind="changed", old_number=old[0], new_number=new[0], old=marked[0], new=marked[1]
        )
    for number, text in olds[len(news) :]:
        yield Row(kind="removed", old_number=number, old=(Piece(text=text),))
    for number, text in news[len(olds) :]:
        yield Row(kind="added", new_number=number, new=(Piece(text=text),))


def _marked(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return two lines with the words marked that the other does not have."""
    if max(len(old), len(new)) > LINE_CHARACTERS_MAX:
        return (Piece(text=old, is_marked=True),), (Piece(text=new, is_marked=True),)
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    olds, news = list[Piece](), list[Piece]()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        _add_piece(olds, "".join(before[old_start:old_end]), is_marked=kind != "equal")
        _add_piece(news, "".join(after[new_start:new_end]), is_marked=kind != "equal")
    return tuple(olds), tuple(news)


def _add_piece(pieces: list[Piece], text: str, *, is_marked: bool) -> None:
    if text:
        pieces.append(Piece(text=text, is_marked=is_marked))

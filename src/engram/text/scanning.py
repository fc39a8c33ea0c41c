"""Look for patterns in a text that is read piece by piece, and say where they are in characters.

What is kept in memory does not grow with the text, and what is found does not depend on the pieces.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engram.model.document_query import Match
from engram.text.patterns import Pattern

BLOCK_BYTES = 262_144
"""How far all patterns are looked for before what they found is told in order."""

_LOOK_BEHIND_BYTES = 4
"""Kept before a place: what stands there decides whether a line or a word begins."""

_CONTINUES, _IS_CONTINUATION = 0b1100_0000, 0b1000_0000


class Scanner:
    """Finds every match of every pattern, in the order in which they begin."""

    def __init__(
        self,
        patterns: Sequence[Pattern],
        *,
        is_over: Callable[[], bool] = lambda: False,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Begin at the start of a text; `is_over` is asked again and again whether to give up."""
        self._text = _Text()
        self._seekers = [_Seeker(pattern, self._text, is_over) for pattern in patterns]
        self._ahead_bytes = max(pattern.slice_bytes for pattern in patterns)
        self._block_bytes = block_bytes
        self._told_to = 0

    @property
    def is_stopped(self) -> bool:
        """Say whether a pattern was given up."""
        return any(seeker.is_stopped for seeker in self._seekers)

    def feed(self, data: bytes) -> Iterator[Match]:
        """Yield the matches that are certain now; take them all before more is fed."""
        self._text.add(data)
        while self._text.end > self._told_to + self._block_bytes + self._ahead_bytes:
            yield from self._tell(self._told_to + self._block_bytes)

    def finish(self) -> Iterator[Match]:
        """Yield the matches that are left at the end of the text."""
        self._text.is_whole = True
        yield from self._tell(self._text.end + 1)

    def _tell(self, horizon: int) -> Iterator[Match]:
        """Yield the matches that begin before a place."""
        found = [seeker.seek(horizon) for seeker in self._seekers]
        for start, end in heapq.merge(*found):
            yield self._text.measured(start, end)
        self._told_to = horizon
        self._text.drop_before(min(seeker.place for seeker in self._seekers))


class _Text:
    """The part of the text that is still looked at; places are counted from the text's start."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.base = 0
        self.is_whole = False
        self._counted = 0
        self._characters = 0

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def add(self, data: bytes) -> None:
        self.data += data

    def boundary(self, place: int) -> int:
        """Return the start of the character that a place lies in."""
        index = min(place, self.end) - self.base
        while 0 < index < len(self.data) and self._is_inside(index):
            index -= 1
        return self.base + index

    def after(self, place: int) -> int:
        """Return the first start of a character from a place on."""
        index = place - self.base
        while index < len(self.data) and self._is_inside(index):
            index += 1
        return self.base + index

    def measured(self, start: int, end: int) -> Match:
        """Return a range also in characters; no range may begin before the last one."""
        self._count_to(start)
        characters = self._characters
        return Match(
            start=characters,
            end=characters + _characters_of(self.data[start - self.base : end - self.base]),
            start_byte=start,
            end_byte=end,
        )

    def drop_before(self, place: int) -> None:
        """Forget what is before a place, a little apart."""
        place = self.boundary(max(min(place, self.end) - _LOOK_BEHIND_BYTES, self.base))
        self._count_to(place)
        del self.data[: place - self.base]
        self.base = place

    def _count_to(self, place: int) -> None:
        if place > self._counted:
            counted = self.data[self._counted - self.base : place - self.base]
            self._characters += _characters_of(counted)
            self._counted = place

    def _is_inside(self, index: int) -> bool:
        return self.data[index] & _CONTINUES == _IS_CONTINUATION


@dataclass(slots=True)
class _Seeker:
    """Looks for one pattern; it has found all that begins before its place."""

    pattern: Pattern
    text: _Text
    is_over: Callable[[], bool]
    place: int = 0
    is_stopped: bool = False

    def seek(self, horizon: int) -> Iterator[tuple[int, int]]:
        """Yield the matches that begin before a place, in order."""
        while self.place < horizon and self.place <= self.text.end:
            if self.is_over():
                self.is_stopped = True
                self.place = self.text.end + 1
                return
            found = self._next(horizon)
            if found is not None:
                start, end = found
                self.place = end if end > start else self.text.after(end + 1)
                yield found

    def _next(self, horizon: int) -> tuple[int, int] | None:
        """Return the next match if it begins in this slice before a place; go on to where one may."""
        text, base = self.text, self.text.base
        end = text.boundary(self.place + self.pattern.slice_bytes)
        is_last = text.is_whole and end == text.end
        certain = end + 1 if is_last else text.boundary(end - self.pattern.reach_bytes)
        found = self.pattern.find(text.data, self.place - base, end - base)
        start = text.boundary(found[0] + base) if found else certain
        if found and start <= certain and start < horizon:
            return start, text.after(found[1] + base)
        self.place = min(start, certain)
        return None


def _characters_of(data: bytearray) -> int:
    return len(data) if data.isascii() else len(data.decode(errors="surrogatepass"))

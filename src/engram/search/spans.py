"""Build spans around matches: context on both sides, overlaps merged, within a token budget.

Offsets count characters unless their names say bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from engram.model.document import Match, Span
from engram.model.ids import MemoryId
from engram.model.value import replace
from engram.text.excerpts import longest
from engram.text.tokens import beginning, count_tokens

_BYTES_PER_CHARACTER_MAX = 4


@dataclass(slots=True, kw_only=True)
class Window:
    """A range of a text around adjacent matches; it may extend past the end of the text."""

    start: int
    end: int
    matches: list[Match]
    """Sorted by start."""

    @property
    def first(self) -> Match:
        """Return the match with the lowest start."""
        return self.matches[0]

    @property
    def last(self) -> Match:
        """Return the match with the highest end."""
        return max(self.matches, key=attrgetter("end"))

    @property
    def wanted_bytes(self) -> tuple[int, int]:
        """Return a byte range that contains the window, whatever the width of its characters."""
        first, last = self.first, self.last
        before = (first.start - self.start) * _BYTES_PER_CHARACTER_MAX
        after = (self.end - last.end) * _BYTES_PER_CHARACTER_MAX
        return max(first.start_byte - before, 0), last.end_byte + after


class Windows:
    """Collects windows around the matches of one text; matches are added sorted by start."""

    def __init__(self, *, window_chars: int) -> None:
        self._before = window_chars // 2
        self._after = window_chars - self._before
        self._closed = 0
        self.count = 0
        self.all: list[Window] = []

    def add(self, match: Match) -> None:
        """Add a match to the last window if they overlap, else to a new one."""
        self.count += 1
        start, end = max(match.start - self._before, 0), match.end + self._after
        if self.all and start <= self.all[-1].end:
            window = self.all[-1]
            window.end = max(window.end, end)
            window.matches.append(match)
            return
        if self.all:
            self._closed += self.all[-1].end - self.all[-1].start
        self.all.append(Window(start=start, end=end, matches=[match]))

    @property
    def characters(self) -> int:
        """Return the fewest characters that the windows contain, wherever the text ends."""
        if not self.all:
            return 0
        return self._closed + self.all[-1].matches[-1].end - self.all[-1].start


def windows_around(matches: Iterable[Match], *, window_chars: int) -> list[Window]:
    """Return the windows around matches of one text, sorted by start."""
    windows = Windows(window_chars=window_chars)
    for match in sorted(matches, key=attrgetter("start", "end")):
        windows.add(match)
    return windows.all


def span_of(window: Window, data: bytes, *, memory_id: MemoryId) -> Span:
    """Return the text of a window; `data` is its `wanted_bytes`, cut off at the end of the text."""
    first, last = window.first, window.last
    offset, _ = window.wanted_bytes
    begin, finish = first.start_byte - offset, last.end_byte - offset
    before = _last(_decode_whole(data[:begin]), first.start - window.start)
    after = _decode_whole(data[finish:])[: window.end - last.end]
    start_byte = first.start_byte - len(before.encode())
    text = before + data[begin:finish].decode() + after
    return Span(
        memory_id=memory_id,
        text=text,
        start=window.start,
        end=window.start + len(text),
        start_byte=start_byte,
        end_byte=last.end_byte + len(after.encode()),
        matches=tuple(window.matches),
    )


def fit_spans(spans: Sequence[Span], *, token_budget: int) -> tuple[tuple[Span, ...], bool]:
    """Return the spans that fit, in the order given, and whether any text was left out.

    Room is given to matches of a filter first, then to the others by their rank. The first span that
    does not fit is cut to the remaining room; those after it are left out.
    """
    kept: dict[int, Span] = {}
    room = token_budget
    for place in sorted(range(len(spans)), key=lambda place: spans[place].focus.place):
        if room <= 0:
            break
        kept[place] = cut_span(spans[place], room)
        room -= count_tokens(kept[place].text)
    fitting = tuple(kept[place] for place in sorted(kept))
    return fitting, len(kept) < len(spans) or any(span.is_cut for span in fitting)


def cut_span(span: Span, tokens_max: int) -> Span:
    """Return a span cut to `tokens_max` (at least one), around its focus if that fits."""
    characters = beginning(span.text, tokens_max)
    if characters == len(span.text):
        return span
    fitting = longest(
        # Text around the focus may be cheaper than the beginning.
        min(2 * characters, len(span.text)),
        cost=lambda most: count_tokens(_around_focus(span, most).text),
        tokens_max=tokens_max,
    )
    return _around_focus(span, max(fitting, 1))


def _around_focus(span: Span, characters: int) -> Span:
    focus = span.focus
    spare = max(characters - (focus.end - focus.start), 0)
    start = max(focus.start - spare // 2, span.start)
    start = min(start, span.end - characters)
    begin, end = start - span.start, start + characters
    text = span.text[begin : begin + characters]
    start_byte = span.start_byte + len(span.text[:begin].encode())
    return replace(
        span,
        text=text,
        start=start,
        end=end,
        start_byte=start_byte,
        end_byte=start_byte + len(text.encode()),
        matches=tuple(each for each in span.matches if start <= each.start < end or each is focus),
        is_cut=True,
    )


def _decode_whole(data: bytes) -> str:
    """Decode UTF-8 that may begin or end inside a character, dropping the partial ones."""
    return data.decode(errors="ignore")


def _last(text: str, characters: int) -> str:
    return text[len(text) - characters :] if characters else ""

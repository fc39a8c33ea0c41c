"""Search UTF-8 streams for users' patterns: substrings, and regular expressions in linear time.

Memory use does not grow with the text, and matches do not depend on the pieces it arrives in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engram.errors import InvalidRequestError, LimitExceededError
from engram.limits import REGEX_CHARACTERS_MAX, REGEX_STEPS_MAX, SUBSTRING_CHARACTERS_MAX
from engram.model.document import Match
from engram.model.fields import check_text
from engram.model.value import Value

if TYPE_CHECKING:
    import re2

SLICE_BYTES_MAX = 262_144
"""Text searched in one call, unless a pattern is so large that this could take seconds."""

SLICE_BYTES_MIN = 16_384
REACH_BYTES = 8_192
"""The longest match that is certain to be found whole; a longer one may be split into several."""

BLOCK_BYTES = 262_144
"""All patterns advance by this much before their matches are merged in order."""

_STEPS_PER_SLICE = 64_000_000
"""Upper bound for one call: each byte may be compared at every step of a pattern."""

_MEMORY_BYTES = 8 * 1024 * 1024
_BYTES_PER_CHARACTER_MAX = 4
_LOOK_BEHIND_BYTES = 4
"""Kept before the search position, for anchors and word boundaries."""

# In UTF-8, bytes 10xxxxxx continue a character.
_CONTINUATION_MASK, _CONTINUATION = 0b1100_0000, 0b1000_0000


class Pattern(Protocol):
    """A pattern to search for in UTF-8."""

    @property
    def slice_bytes(self) -> int:
        """How much text to search in one call; more than `reach_bytes`."""
        ...

    @property
    def reach_bytes(self) -> int:
        """How far after its start a match can depend on the text."""
        ...

    def find(self, data: bytearray, start: int, end: int) -> tuple[int, int] | None:
        """Return the first match between two offsets; anchors see the text around them."""
        ...


class Substring(Value, kw_only=False):
    """A literal text."""

    needle: bytes
    slice_bytes: int = SLICE_BYTES_MAX

    @property
    def reach_bytes(self) -> int:
        return len(self.needle)

    def find(self, data: bytearray, start: int, end: int) -> tuple[int, int] | None:
        found = data.find(self.needle, start, end)
        return None if found < 0 else (found, found + len(self.needle))


class Regex(Value, kw_only=False):
    """A regular expression in RE2 syntax."""

    compiled: re2._Regexp  # pyright: ignore[reportPrivateUsage]: re2 exports no public name
    slice_bytes: int
    reach_bytes: int = REACH_BYTES

    def find(self, data: bytearray, start: int, end: int) -> tuple[int, int] | None:
        found = self.compiled.search(data, start, end)
        return None if found is None else found.span()


def substring(text: str, *, field: str) -> Substring:
    """Validate a substring to search for.

    Raises:
        InvalidRequestError: it is empty, too long, or cannot be encoded as UTF-8.
    """
    if not text:
        raise InvalidRequestError("must not be empty", field=field)
    _check_length(text, SUBSTRING_CHARACTERS_MAX, field=field)
    return Substring(text.encode())


def regex(pattern: str, *, field: str) -> Regex:
    """Validate and compile a regular expression.

    Raises:
        InvalidRequestError: it is empty, too long, too complex, or not a regular expression.
    """
    import re2  # noqa: PLC0415 most processes never need it

    if not pattern:
        raise InvalidRequestError("must not be empty", field=field)
    _check_length(pattern, REGEX_CHARACTERS_MAX, field=field)
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as exc:
        raise InvalidRequestError(f"is not valid: {_reason(exc)}", field=field) from exc
    finally:
        # re2 would cache every pattern, with megabytes of states.
        re2.purge()
    steps = compiled.programsize
    if steps > REGEX_STEPS_MAX:
        message = f"is too complex: it has {steps:,} steps, at most {REGEX_STEPS_MAX:,} are allowed"
        raise InvalidRequestError(message, field=field)
    slice_bytes = min(max(_STEPS_PER_SLICE // steps, SLICE_BYTES_MIN), SLICE_BYTES_MAX)
    return Regex(compiled, slice_bytes)


class Scanner:
    """Finds all matches of all patterns, sorted by start."""

    def __init__(
        self,
        patterns: Sequence[Pattern],
        *,
        is_over: Callable[[], bool] = lambda: False,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Begin at the start of a text; `is_over` is polled between slices to stop early."""
        self._text = _Buffer()
        self._seekers = [_Seeker(pattern, self._text, is_over) for pattern in patterns]
        self._ahead_bytes = max(pattern.slice_bytes for pattern in patterns)
        self._block_bytes = block_bytes
        self._searched_to = 0

    @property
    def is_stopped(self) -> bool:
        """Return True if the search was stopped early."""
        return any(seeker.is_stopped for seeker in self._seekers)

    def feed(self, data: bytes) -> Iterator[Match]:
        """Yield the matches that more text cannot change; exhaust it before feeding more."""
        self._text.add(data)
        while self._text.end > self._searched_to + self._block_bytes + self._ahead_bytes:
            yield from self._merge(self._searched_to + self._block_bytes)

    def finish(self) -> Iterator[Match]:
        """Yield the remaining matches at the end of the text."""
        self._text.is_whole = True
        yield from self._merge(self._text.end + 1)

    def _merge(self, horizon: int) -> Iterator[Match]:
        """Yield the matches of all patterns that begin before `horizon`, in order."""
        found = [seeker.seek(horizon) for seeker in self._seekers]
        for start, end in heapq.merge(*found):
            yield self._text.match(start, end)
        self._searched_to = horizon
        self._text.drop_before(min(seeker.place for seeker in self._seekers))


class _Buffer:
    """A sliding window on the text; offsets are bytes from the start of the text."""

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
        """Return the start of the character at an offset."""
        index = min(place, self.end) - self.base
        while 0 < index < len(self.data) and self._is_inside(index):
            index -= 1
        return self.base + index

    def after(self, place: int) -> int:
        """Return the first start of a character at or after an offset."""
        index = place - self.base
        while index < len(self.data) and self._is_inside(index):
            index += 1
        return self.base + index

    def match(self, start: int, end: int) -> Match:
        """Return a byte range as a match with character offsets; calls must be sorted by start."""
        self._count_to(start)
        characters = self._characters
        return Match(
            start=characters,
            end=characters + _characters_of(self.data[start - self.base : end - self.base]),
            start_byte=start,
            end_byte=end,
        )

    def drop_before(self, place: int) -> None:
        """Drop text before an offset, except for what look-behind needs."""
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
        return self.data[index] & _CONTINUATION_MASK == _CONTINUATION


@dataclass(slots=True)
class _Seeker:
    """The search for one pattern; all matches that begin before `place` have been found."""

    pattern: Pattern
    text: _Buffer
    is_over: Callable[[], bool]
    place: int = 0
    is_stopped: bool = False

    def seek(self, horizon: int) -> Iterator[tuple[int, int]]:
        """Yield the byte ranges of matches that begin before `horizon`, in order."""
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
        """Search one slice: return the next match before `horizon`, or advance to where one may begin."""
        text, base = self.text, self.text.base
        end = text.boundary(self.place + self.pattern.slice_bytes)
        is_last = text.is_whole and end == text.end
        # A match that begins later might end differently once more text is known.
        certain = end + 1 if is_last else text.boundary(end - self.pattern.reach_bytes)
        found = self.pattern.find(text.data, self.place - base, end - base)
        start = text.boundary(found[0] + base) if found else certain
        if found and start <= certain and start < horizon:
            return start, text.after(found[1] + base)
        self.place = min(start, certain)
        return None


def _check_length(text: str, characters_max: int, *, field: str) -> None:
    if len(text) > characters_max:
        raise LimitExceededError(field, limit=characters_max, actual=len(text), unit="characters")
    check_text(field, text, bytes_max=characters_max * _BYTES_PER_CHARACTER_MAX)


def _reason(error: Exception) -> str:
    """Return the message of an re2 error, which is bytes."""
    (reason,) = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _characters_of(data: bytearray) -> int:
    return len(data) if data.isascii() else len(data.decode(errors="surrogatepass"))

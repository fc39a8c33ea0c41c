"""Bounds the nesting and the number of values of JSON text before a parser builds objects of it.

Ten megabytes of `[{},{},…]` become hundreds of megabytes of objects. A scan costs no memory, a time
that grows with the length of the text, and never holds the interpreter's lock for more than a slice.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from engram import limits
from engram.errors import LimitExceededError
from engram.yielding import yield_to_others

Span: TypeAlias = tuple[int, int]
"""Where a string begins and ends in JSON text, without its quotes."""

SLICE_BYTES = 1 << 15
"""Looked through by one call into C, a few milliseconds; between two, other threads get their turn."""

INLINE_BYTES_MAX = 256 * 1024
"""JSON up to here is parsed where it arrives, if it holds few values."""

LONG_STRING_BYTES = 4_096
"""Strings longer than this are reported, so that they can be decoded apart from the rest."""

_NO_STRUCTURE = re.compile(rb'[^"\[\]{},]*+')
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+', re.DOTALL)

_QUOTE, _COMMA, _OPENERS = ord('"'), ord(","), frozenset(b"[{")


def is_light(data: bytes | bytearray) -> bool:
    """Return True if JSON text is so small that the event loop may parse it without anybody noticing."""
    return len(data) <= INLINE_BYTES_MAX and _values_at_most(data) <= limits.JSON_VALUES_INLINE_MAX


def check_shape(data: bytes | bytearray) -> None:
    """Refuse JSON text that nests too deep or holds too many values.

    Raises:
        LimitExceededError: it does; the field is `body`.
    """
    # Most texts are so small that counting settles it: no level is without its opening.
    most = _values_at_most(data)
    if most > limits.JSON_DEPTH_MAX and (
        most > limits.JSON_VALUES_MAX or data.count(b"{") + data.count(b"[") > limits.JSON_DEPTH_MAX
    ):
        find_long_strings(data)


def find_long_strings(data: bytes | bytearray) -> list[Span]:
    """Return where the long strings of JSON text are, and check its shape on the way.

    A scan of text that is not JSON ends where that becomes plain: its parser will say so.

    Raises:
        LimitExceededError: it nests too deep or holds too many values; the field is `body`.
    """
    return _Scan(data).run()


def skip_escapes(data: bytes | bytearray, start: int, end: int) -> int:
    """Return how far the inside of a string goes on from `start`, without half an escape at `end`."""
    found = _IN_STRING.match(data, start, end)
    return start if found is None else found.end()


class _Scan:
    """One pass over JSON text."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._depth = 0
        self._values = 1
        self._strings = 0
        self._long = list[Span]()

    def run(self) -> list[Span]:
        position: int | None = 0
        while position is not None and (position := self._skip(position)) < len(self._data):
            position = self._take(position)
            yield_to_others()
        return self._long

    def _skip(self, position: int) -> int:
        """Return the position of the next byte that gives the text structure."""
        end = len(self._data)
        while position < end:
            slice_end = min(position + SLICE_BYTES, end)
            found = _NO_STRUCTURE.match(self._data, position, slice_end)
            position = slice_end if found is None else found.end()
            if position < slice_end:
                break
        return position

    def _take(self, position: int) -> int | None:
        """Count what begins at `position`; return where to go on, None where JSON ended."""
        byte = self._data[position]
        if byte == _QUOTE:
            return self._take_string(position + 1)
        if byte == _COMMA:
            self._count()
        elif byte in _OPENERS:
            self._count()
            self._depth += 1
            if self._depth > limits.JSON_DEPTH_MAX:
                raise _too_much(limits.JSON_DEPTH_MAX, self._depth, "levels")
        else:
            self._depth -= 1
        return position + 1 if self._depth > 0 else None

    def _take_string(self, start: int) -> int | None:
        self._strings += 1
        # Every string is a value or the name of one; with more of them this is not JSON.
        if self._strings > 2 * self._values:
            return None
        end = self._end_of_string(start)
        if end is None:
            return None
        if end - start > LONG_STRING_BYTES:
            self._long.append((start, end))
        return end + 1 if self._depth > 0 else None

    def _end_of_string(self, start: int) -> int | None:
        """Return the position of the quote that ends a string, None if none does."""
        quote = self._data.find(b'"', start)
        if quote < 0:
            return None
        position = self._data.find(b"\\", start, quote)
        if position < 0:
            return quote
        return self._end_past_escapes(position)

    def _end_past_escapes(self, position: int) -> int | None:
        end = len(self._data)
        while position < end:
            yield_to_others()
            reached = skip_escapes(self._data, position, min(position + SLICE_BYTES, end))
            if reached < end and self._data[reached] == _QUOTE:
                return reached
            if reached == position:  # an escape that is none, or one without an end
                return None
            position = reached
        return None

    def _count(self) -> None:
        self._values += 1
        if self._values > limits.JSON_VALUES_MAX:
            raise _too_much(limits.JSON_VALUES_MAX, self._values, "values")


def _values_at_most(data: bytes | bytearray) -> int:
    """Return a number that the values of JSON text do not exceed; what is in strings counts too."""
    return data.count(b",") + data.count(b"{") + data.count(b"[") + 1


def _too_much(limit: int, actual: int, unit: str) -> LimitExceededError:
    return LimitExceededError("body", limit=limit, actual=actual, unit=unit)

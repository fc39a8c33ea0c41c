"""Bounds JSON text and takes its long strings out before a parser builds objects of it.

Ten megabytes of `[{},{},…]` become hundreds of megabytes of objects, so nesting and values are counted
first, in slices between which other threads get their turn. A parser holds the interpreter's lock while
it reads a string: 60 MB of `\\u0001` are a quarter of a second in which no other request is served. So
long strings are decoded slice by slice; the JSON that is left names each of them by a short mark, which
`restore` replaces by the string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from engram import limits
from engram.clock import random_text
from engram.errors import LimitExceededError, RequestTooLargeError
from engram.model.value import Value
from engram.yielding import yield_to_others

Span: TypeAlias = tuple[int, int]
"""Where a string begins and ends in JSON text, without its quotes."""

SLICE_BYTES = 1 << 15
"""Looked through by one call into C, a few milliseconds; between two, other threads get their turn."""

_NO_STRUCTURE = re.compile(rb'[^"\[\]{},]*+')
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+', re.DOTALL)

_QUOTE, _COMMA, _OPENERS = ord('"'), ord(","), frozenset(b"[{")

MARK = f"engram-text-{random_text(21)}-"
"""Begins the marks that stand for long strings; random, so that it occurs in no text."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_ESCAPE_BYTES = len(b"\\u0000")

Texts = Mapping[str, str]
"""The long strings of a request by their marks."""


def is_light(data: bytes | bytearray) -> bool:
    """Return True if JSON text is small enough to be parsed on the event loop."""
    return (
        len(data) <= limits.JSON_INLINE_BYTES_MAX
        and _values_at_most(data) <= limits.JSON_VALUES_INLINE_MAX
    )


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

    A scan of invalid JSON ends early: the parser will refuse the text.

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
        if end - start > limits.JSON_LONG_STRING_BYTES:
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


class NotJsonError(ValueError):
    """What was sent is not JSON in UTF-8."""


class JsonText(Value, kw_only=False):
    """JSON whose shape is within its bounds, and the long strings that were taken out of it."""

    data: bytes | bytearray
    texts: Texts = MappingProxyType({})


def prepare(data: bytes | bytearray) -> JsonText:
    """Return JSON text ready for a parser; a large `data` is emptied to free its memory.

    Raises:
        NotJsonError: it is not UTF-8, or a long string in it cannot be read.
        LimitExceededError: it nests too deep, holds too many values, or too much beside its texts.
    """
    # Parsers that guess the encoding would read another structure than the one that is checked.
    if data[:2] in _UTF_16 or b"\0" in data[:4]:
        raise NotJsonError("the text is not UTF-8")
    if len(data) <= limits.JSON_INLINE_BYTES_MAX:
        check_shape(data)
        return JsonText(data)
    spans = find_long_strings(data)
    structure = _without(data, spans)
    texts = {f"{MARK}{index}": decode(data, span) for index, span in enumerate(spans)}
    if isinstance(data, bytearray):
        data.clear()
    return JsonText(structure, texts)


def restore(value: Any, texts: Texts) -> Any:
    """Return a parsed JSON value with its long strings in their places."""
    if not texts:
        return value
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, list):
        return [restore(item, texts) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {texts.get(name, name): restore(item, texts) for name, item in items}
    return value


def decode(data: bytes | bytearray, span: Span) -> str:
    """Return the string at `span` of JSON text, decoded slice by slice.

    Raises:
        NotJsonError: it is not UTF-8, or holds a control character or an unknown escape.
    """
    pieces, (start, end) = list[str](), span
    while start < end:
        yield_to_others()
        cut = _find_cut(data, start, end)
        piece = _decode_slice(data[start:cut])
        if cut < end and "\ud800" <= piece[-1] <= "\udbff":
            # The second half of a surrogate pair comes with the next slice, and so must the first.
            piece, cut = piece[:-1], cut - _ESCAPE_BYTES
        pieces.append(piece)
        start = cut
    return "".join(pieces)


def _find_cut(data: bytes | bytearray, start: int, end: int) -> int:
    """Return where to cut a string so that neither an escape nor a character is cut in two."""
    cut = start + SLICE_BYTES
    if cut >= end:
        return end
    if data.find(b"\\", start, cut) >= 0:
        cut = skip_escapes(data, start, cut)
    while data[cut] & 0b1100_0000 == 0b1000_0000:
        cut -= 1
    return cut


def _decode_slice(data: bytes | bytearray) -> str:
    try:
        return json.loads(f'"{data.decode()}"')
    except ValueError as exc:
        raise NotJsonError(f"a string cannot be read: {exc}") from exc


def _without(data: bytes | bytearray, spans: Sequence[Span]) -> bytes:
    """Return JSON text with a mark in the place of each of its strings at `spans`."""
    kept = len(data) - sum(end - start for start, end in spans)
    if kept > limits.JSON_STRUCTURE_BYTES_MAX:
        limit = limits.JSON_STRUCTURE_BYTES_MAX
        raise RequestTooLargeError("body", limit=limit, actual=kept, unit="bytes beside long texts")
    pieces, position = list[bytes | bytearray](), 0
    for index, (start, end) in enumerate(spans):
        pieces += (data[position:start], f"{MARK}{index}".encode())
        position = end
    return b"".join([*pieces, data[position:]])

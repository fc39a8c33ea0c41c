"""Takes the long strings out of JSON text, so that no parser works on megabytes in one call.

A parser holds the interpreter's lock while it reads a string: 60 MB of `\\u0001` are a quarter of a
second in which no other request is served. Here long strings are decoded slice by slice; the JSON that
is left names each of them by a short mark, which `restore` replaces by the string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from engram import limits
from engram.clock import random_text
from engram.errors import RequestTooLargeError
from engram.transport.bodies.scan import (
    INLINE_BYTES_MAX,
    SLICE_BYTES,
    Span,
    check_shape,
    find_long_strings,
    skip_escapes,
)
from engram.yielding import yield_to_others

MARK = f"engram-text-{random_text(21)}-"
"""Begins the marks that stand for long strings; random, so that it occurs in no text."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_ESCAPE_BYTES = len(b"\\u0000")

Texts = Mapping[str, str]
"""The long strings of a request by their marks."""


class NotJsonError(ValueError):
    """What was sent is not JSON in UTF-8."""


@dataclass(slots=True)
class JsonText:
    """JSON whose shape is within its bounds, and the long strings that were taken out of it."""

    data: bytes | bytearray
    texts: Texts = field(default_factory=dict[str, str])


def prepare(data: bytes | bytearray) -> JsonText:
    """Return JSON text ready for a parser; a large `data` is emptied, because nobody needs it twice.

    Raises:
        NotJsonError: it is not UTF-8, or a long string in it cannot be read.
        LimitExceededError: it nests too deep, holds too many values, or too much beside its texts.
    """
    # Parsers that guess the encoding would read another structure than the one that is checked.
    if data[:2] in _UTF_16 or b"\0" in data[:4]:
        raise NotJsonError("the text is not UTF-8")
    if len(data) <= INLINE_BYTES_MAX:
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

"""Read files that are one JSON value: whole if they are small, else element by element."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from engram import limits
from engram.sources.lines import parse_value
from engram.sources.values import SourceError, SourceFile, Tally

_CHUNK_BYTES = 1 << 20
_BETWEEN = " \t\r\n,"


def read_document(file: SourceFile, tally: Tally) -> Any:
    """Return the value of a JSON file.

    Raises:
        SourceError: it is too large to be held, or no JSON.
    """
    size = file.path.stat().st_size
    if size > limits.SOURCE_LINE_BYTES_MAX:
        raise SourceError(f"has {size:,} bytes; at most {limits.SOURCE_LINE_BYTES_MAX:,} are read")
    value = parse_value(file.path.read_bytes())
    if value is None:
        raise SourceError("is not JSON")
    tally.read += 1
    return value


def read_elements(stream: BinaryIO, tally: Tally) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array, holding one at a time.

    Raises:
        SourceError: it is no array, an element is too large, or the array is cut off.
    """
    text = _Text(stream)
    if not text.take("["):
        raise SourceError("is not a JSON array")
    while not text.take("]"):
        value = text.next_value()
        tally.read += 1
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)
        else:
            tally.skip("not an object")


class _Text:
    """A stream as text, of which the part is held that is not parsed yet."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._parse = json.JSONDecoder().raw_decode
        self._held = ""
        self._place = 0
        self._ended = False

    def take(self, character: str) -> bool:
        """Skip what is between values; return True if the character follows, and skip it too."""
        while True:
            while self._place < len(self._held) and self._held[self._place] in _BETWEEN:
                self._place += 1
            if self._place < len(self._held):
                found = self._held[self._place] == character
                self._place += found
                return found
            if self._ended:
                raise SourceError("is cut off")
            self._fill(_CHUNK_BYTES)

    def next_value(self) -> object:
        """Return the next value; what is read for one that is not complete doubles each time."""
        wanted = _CHUNK_BYTES
        while True:
            try:
                value, end = self._parse(self._held, self._place)
            except (ValueError, RecursionError) as exc:
                if self._ended:
                    raise SourceError("is cut off, or not JSON") from exc
            else:
                self._place = end
                return value
            if len(self._held) - self._place > limits.SOURCE_ELEMENT_CHARACTERS_MAX:
                raise SourceError("has an element that is too large")
            self._fill(wanted)
            wanted *= 2

    def _fill(self, wanted: int) -> None:
        data = self._stream.read(wanted)
        self._ended = not data
        self._held = self._held[self._place :] + self._decode(data, final=self._ended)
        self._place = 0

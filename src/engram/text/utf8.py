"""Decode a stream of UTF-8, reporting the offset of the first invalid byte."""

from __future__ import annotations

import codecs

from engram.errors import NotTextError


class Utf8Reader:
    """Incremental decoder for pieces that may split characters."""

    def __init__(self, *, offset_bytes: int = 0) -> None:
        """Begin at an offset in the stream, which must be the first byte of a character."""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._read = offset_bytes

    def feed(self, data: bytes) -> str:
        """Return the characters that are complete.

        Raises:
            NotTextError: the stream is not UTF-8; carries the offset.
        """
        return self._decode(data, is_last=False)

    def finish(self) -> str:
        """End the stream.

        Raises:
            NotTextError: it ends inside a character.
        """
        return self._decode(b"", is_last=True)

    def _decode(self, data: bytes, *, is_last: bool) -> str:
        pending, _ = self._decoder.getstate()
        try:
            text = self._decoder.decode(data, is_last)
        except UnicodeDecodeError as exc:
            offset_bytes = self._read - len(pending) + exc.start
            raise NotTextError(offset_bytes=offset_bytes) from exc
        self._read += len(data)
        return text

"""Read a stream of bytes as UTF-8, and say at which byte it stops being that."""

from __future__ import annotations

import codecs

from engram.errors import NotTextError


class Utf8Reader:
    """Makes text of bytes that come in pieces, wherever the pieces part a character."""

    def __init__(self, *, offset_bytes: int = 0) -> None:
        """Begin with what stands at a byte of the stream, the first one of a character."""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._read = offset_bytes

    def feed(self, data: bytes) -> str:
        """Return the characters that are whole now.

        Raises:
            NotTextError: the stream is not UTF-8; says from which of its bytes on.
        """
        return self._decode(data, is_last=False)

    def finish(self) -> str:
        """Make sure that the stream does not end inside of a character.

        Raises:
            NotTextError: it does.
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

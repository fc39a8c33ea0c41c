"""The text that a document becomes: written to a file as it comes, and bounded."""

from __future__ import annotations

from typing import BinaryIO

from engram.errors import ConversionError


class TextTarget:
    """Writes UTF-8 to a file, up to a number of bytes."""

    def __init__(self, file: BinaryIO, *, bytes_max: int) -> None:
        self._file = file
        self._bytes_max = bytes_max
        self._bytes = 0
        self.has_text = False
        """Whether anything but white space was written."""

    def write(self, text: str) -> None:
        """Write a piece of text.

        Raises:
            ConversionError: it becomes too much.
        """
        # Some documents hold halves of characters and zero bytes, which no text can.
        data = text.replace("\0", "").encode(errors="replace")
        self._bytes += len(data)
        if self._bytes > self._bytes_max:
            raise ConversionError(f"it becomes more than {self._bytes_max:,} bytes of text")
        self._file.write(data)
        self.has_text = self.has_text or not text.isspace()

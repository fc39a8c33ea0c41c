"""Read a body or text once from its first byte to its last: hash it, prove it is text, and show it."""

from __future__ import annotations

import hashlib

from engram.convert.kinds import document_kind
from engram.text.synopsis import SynopsisWriter
from engram.text.utf8 import Utf8Reader


class TextScan:
    """Reads UTF-8 in pieces, and writes the synopsis of it."""

    def __init__(self) -> None:
        self._reader = Utf8Reader()
        self._writer = SynopsisWriter()

    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            NotTextError: this is not UTF-8.
        """
        self._writer.feed(self._reader.feed(data))

    def finish(self) -> str:
        """Return the synopsis.

        Raises:
            NotTextError: the text ends inside of a character.
        """
        self._writer.feed(self._reader.finish())
        return self._writer.finish()


class BodyScan:
    """Reads a body in pieces; the first of them tells whether it is text."""

    def __init__(self, *, media_type: str, name: str | None) -> None:
        self._media_type = media_type
        self._name = name
        self._digest = hashlib.sha256()
        self._text: TextScan | None = None
        self._is_begun = False

    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            NotTextError: this must be UTF-8 and is not.
        """
        if not self._is_begun:
            self._is_begun = True
            kind = document_kind(data, media_type=self._media_type, name=self._name)
            self._text = TextScan() if kind == "text" else None
        self._digest.update(data)
        if self._text is not None:
            self._text.feed(data)

    @property
    def sha256(self) -> bytes:
        """Return the hash of what was read."""
        return self._digest.digest()

    def finish(self) -> str | None:
        """Return the synopsis; None of what is no text.

        Raises:
            NotTextError: the text ends inside of a character.
        """
        return None if self._text is None else self._text.finish()

"""Show a large document by its beginning and its outline, reading it in pieces."""

from __future__ import annotations

from collections.abc import Iterable

from engram.limits import OUTLINE_BYTES, SYNOPSIS_BYTES
from engram.text.markdown import Heading, HeadingScanner, Mark

OUTLINE_MARK = "\n\n--- Outline ---\n"
"""What stands between the beginning and the headings."""

OUTLINE_LEVEL_MAX = 2
"""Headings of these levels are listed."""


class SynopsisWriter:
    """Writes the synopsis of a document that is fed in pieces, keeping no more than it shows."""

    def __init__(self) -> None:
        self._beginning = b""
        self._scanner = HeadingScanner()
        self._outline = Outline()

    def feed(self, text: str) -> None:
        """Read on."""
        room = SYNOPSIS_BYTES - len(self._beginning)
        if room >= 0:
            # One byte more than is shown, to know whether anything is left out.
            self._beginning += text[: room + 1].encode()[: room + 1]
        self._list(self._scanner.feed(text))

    def finish(self) -> str:
        """Return the synopsis: all of a document that is as short, and an outline of a longer one."""
        self._list(self._scanner.finish())
        beginning = self._beginning[:SYNOPSIS_BYTES].decode(errors="ignore")
        outline = self._outline.text()
        is_whole = len(self._beginning) <= SYNOPSIS_BYTES
        return beginning if is_whole or not outline else beginning + OUTLINE_MARK + outline

    def _list(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            if isinstance(mark, Heading) and mark.level <= OUTLINE_LEVEL_MAX and mark.title:
                self._outline.add(f"{'#' * mark.level} {mark.title}")


class Outline:
    """Lists lines up to `OUTLINE_BYTES`, and says how many more there are."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bytes = 0
        self._left_out = 0

    def add(self, line: str) -> None:
        """List a line if there is room, and none was left out before it."""
        size = len(line.encode()) + 1
        if self._left_out or self._bytes + size > OUTLINE_BYTES:
            self._left_out += 1
        else:
            self._lines.append(line)
            self._bytes += size

    def text(self) -> str:
        """Return the lines, each with its end."""
        lines, left_out = list(self._lines), self._left_out
        if not left_out:
            return "".join(f"{line}\n" for line in lines)
        size = self._bytes
        while size + len(_more(left_out).encode()) > OUTLINE_BYTES:
            size -= len(lines.pop().encode()) + 1
            left_out += 1
        return "".join(f"{line}\n" for line in lines) + _more(left_out)


def synopsis(text: str) -> str:
    """Return the synopsis of a document that is in memory."""
    writer = SynopsisWriter()
    writer.feed(text)
    return writer.finish()


def _more(count: int) -> str:
    return f"… and {count:,} more\n"

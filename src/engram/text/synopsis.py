"""Summarize a large document by its beginning and an outline, as a stream."""

from __future__ import annotations

from collections.abc import Iterable

from engram.limits import OUTLINE_BYTES, SYNOPSIS_BYTES
from engram.text.markdown import Heading, HeadingScanner, Mark

OUTLINE_MARK = "\n\n--- Outline ---\n"
"""Separates the beginning from the headings."""

OUTLINE_LEVEL_MAX = 2
"""The deepest level of headings that are listed."""


class SynopsisWriter:
    """Builds the synopsis of a document that is fed in pieces, buffering only what it shows."""

    def __init__(self) -> None:
        self._beginning = b""
        self._scanner = HeadingScanner()
        self._outline = Outline()

    def feed(self, text: str) -> None:
        """Process the next piece."""
        room = SYNOPSIS_BYTES - len(self._beginning)
        if room >= 0:
            # One byte more than is shown, to tell whether the text continues.
            self._beginning += text[: room + 1].encode()[: room + 1]
        self._add_headings(self._scanner.feed(text))

    def finish(self) -> str:
        """Return a short document whole, or the beginning and outline of a longer one."""
        self._add_headings(self._scanner.finish())
        beginning = self._beginning[:SYNOPSIS_BYTES].decode(errors="ignore")
        outline = self._outline.text()
        is_whole = len(self._beginning) <= SYNOPSIS_BYTES
        return beginning if is_whole or not outline else beginning + OUTLINE_MARK + outline

    def _add_headings(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            if isinstance(mark, Heading) and mark.level <= OUTLINE_LEVEL_MAX and mark.title:
                self._outline.add(f"{'#' * mark.level} {mark.title}")


class Outline:
    """A list of lines up to `OUTLINE_BYTES`, with a count of those omitted."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bytes = 0
        self._omitted = 0

    def add(self, line: str) -> None:
        """Append a line if it fits and none was omitted before."""
        size = len(line.encode()) + 1
        if self._omitted or self._bytes + size > OUTLINE_BYTES:
            self._omitted += 1
        else:
            self._lines.append(line)
            self._bytes += size

    def text(self) -> str:
        """Return the lines, each with a line end, and the count of omitted ones."""
        lines, omitted = list(self._lines), self._omitted
        if not omitted:
            return "".join(f"{line}\n" for line in lines)
        size = self._bytes
        while size + len(_more(omitted).encode()) > OUTLINE_BYTES:
            size -= len(lines.pop().encode()) + 1
            omitted += 1
        return "".join(f"{line}\n" for line in lines) + _more(omitted)


def synopsis(text: str) -> str:
    """Return the synopsis of a whole document."""
    writer = SynopsisWriter()
    writer.feed(text)
    return writer.finish()


def _more(count: int) -> str:
    return f"… and {count:,} more\n"

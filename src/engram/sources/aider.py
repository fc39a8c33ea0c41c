"""aider: one Markdown file in each repository, to which every chat is appended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from engram import limits
from engram.sources.places import Places
from engram.sources.texts import moment_of
from engram.sources.values import ContentIds, Session, Source, SourceFile, SourceMessage, Tally

NAME = ".aider.chat.history.md"

_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_USER = "#### "
_NOTE = "> "


def roots(places: Places) -> tuple[Path, ...]:
    """Return the files that aider is told to use; those of repositories need a path."""
    chosen = places.variable("AIDER_CHAT_HISTORY_FILE")
    own = places.home / NAME
    return (own,) if chosen is None else (chosen, own)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in all chats; aider's own notes are left out. Times are of the chats."""
    reader = _Reader(file.path, tally)
    with file.path.open(encoding="utf-8", errors="replace", newline="") as lines:
        while line := lines.readline(limits.SOURCE_LINE_BYTES_MAX):
            yield from reader.read(line)
    yield from reader.finish()


class _Reader:
    def __init__(self, path: Path, tally: Tally) -> None:
        self._directory = str(path.absolute().parent)
        self._tally = tally
        self._ids = ContentIds()
        self._session: Session | None = None
        self._moment: datetime | None = None
        self._is_user = False
        self._lines: list[str] = []

    def read(self, line: str) -> Iterator[SourceMessage]:
        """Take a line; yield the message that it ends."""
        self._tally.read += 1
        if started := _START.fullmatch(line):
            yield from self.finish()
            name = f"{self._directory} {started[1]}"
            self._session = Session(id=name, directory=self._directory)
            self._moment = moment_of(started[1])
        elif line.startswith(_NOTE):
            self._tally.skip("aider's notes")
        else:
            is_user = line.startswith(_USER)
            if is_user != self._is_user:
                yield from self.finish()
                self._is_user = is_user
            self._lines.append(line.removeprefix(_USER))

    def finish(self) -> Iterator[SourceMessage]:
        """Yield the message whose lines were taken."""
        text, self._lines = "".join(self._lines).strip(), []
        if not text or self._session is None:
            return
        role = "user" if self._is_user else "assistant"
        own_id = self._ids.next(self._session, role, text)
        yield SourceMessage(self._session, own_id, role, text, self._moment)


SOURCE = Source(name="aider", title="aider", roots=roots, patterns=(f"**/{NAME}",), read=read)

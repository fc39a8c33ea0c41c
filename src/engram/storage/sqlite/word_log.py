"""The log of packed posting lists: what was added to a file since its lists were written.

It has the numbers of those words of a message that have a list; others are found by FTS5 alone. Files without
lists have no log.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from engram import limits
from engram.storage.postings.index import MessageWords, pack_owner
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("sqlite/packed_words.sql")


class WordLog:
    """Appends to the log, with the numbers of words cached."""

    def __init__(self) -> None:
        self._cached: tuple[int, Mapping[str, int]] = 0, {}
        """Numbers by word, at a generation. Words that have lost their list may be among them."""

    def append(
        self,
        connection: Connection,
        rows: Sequence[MessageWords],
        *,
        generation: int,
        logged: int,
    ) -> None:
        """Log messages that were added to the index, after so many since the last merge."""
        numbers = self._numbers(connection, generation)
        messages, words = bytearray(), list[int]()
        for row in rows:
            found = [*filter(None, map(numbers.get, f"{row.telling} {row.stops}".split(" ")))]
            if found:
                messages += pack_owner(row.key, len(found))
                words += found
        packed = struct.pack(f"<{len(words)}H", *words)
        values = logged // limits.PACKED_LOG_ROW, bytes(messages), packed
        connection.execute(_SQL["log"], values)
        connection.execute(_SQL["count_logged"], (len(rows),))

    def _numbers(self, connection: Connection, generation: int) -> Mapping[str, int]:
        known, numbers = self._cached
        if known != generation:
            numbers = dict(connection.execute(_SQL["numbers"]).fetchall())
            self._cached = generation, numbers
        return numbers

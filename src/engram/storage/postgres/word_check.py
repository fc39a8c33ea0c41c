"""Compare the index of words with what the messages, analysed again, would put into it.

Lengths are compared message by message. The entries lie by word and not by message, so they are
compared by a sum over the hash of each word with its message and how often that holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engram.storage.postings.index import MessageWords
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/words.sql")
_ENTRIES_READ = 20_000
_MASK = (1 << 64) - 1


class PostingCheck:
    """The `WordCheck` of a PostgreSQL database."""

    def __init__(self, connection: Connection, *, organization_id: int) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._rows = self._words = self._sum = self._missing = self._wrong = 0

    def expect(self, rows: Iterable[MessageWords]) -> None:
        expected = {row.key: words_in(row) for row in rows}
        lengths = {key: (len(telling), len(stops)) for key, (telling, stops) in expected.items()}
        self._compare_lengths(lengths)
        self._rows += len(lengths)
        self._words += sum(map(sum, lengths.values()))
        for key, (telling, stops) in expected.items():
            held = Counter(telling + stops)
            self._sum += sum(hash((term, key, count)) for term, count in held.items())

    def faults(self) -> Iterator[str]:
        (present,) = self._ask("count").fetchone()
        for count, what in (
            (self._missing, "are missing from"),
            (present - self._rows + self._missing, "should not be in"),
            (self._wrong, "have another number of words in"),
        ):
            if count:
                yield f"{count} messages {what} the word index"
        if self._ask("statistics").fetchone() != (self._rows, self._words):
            yield "the word index miscounts its rows or words"
        if self._sum & _MASK != self._stored_sum() & _MASK:
            yield "the word index holds other words than the messages"

    def _compare_lengths(self, expected: dict[int, tuple[int, int]]) -> None:
        found = {key: tuple(rest) for key, *rest in self._ask("lengths", keys=[*expected])}
        self._missing += len(expected) - len(found)
        self._wrong += sum(expected[key] != length for key, length in found.items())

    def _stored_sum(self) -> int:
        total, term, key = 0, "", -1
        while rows := self._entries_after(term, key):
            total += sum(map(hash, rows))
            term, key, _ = rows[-1]
        return total

    def _entries_after(self, term: str, key: int) -> Sequence[tuple[str, int, int]]:
        return self._ask("postings_after", term=term, key=key, limit=_ENTRIES_READ).fetchall()

    def _ask(self, name: str, **values: Any) -> Any:
        asked = {"organization_id": self._organization_id, **values}
        return self._connection.execute(_SQL[name], asked)


def words_in(row: MessageWords) -> tuple[list[str], list[str]]:
    """Return the words of a message: those that tell something, and stop words."""
    telling, stops = (
        [word for word in part.split(" ") if word] for part in (row.telling, row.stops)
    )
    return telling, stops

"""Compare the FTS5 table of words with what the messages, analysed again, would put into it.

Sizes are compared row by row. The words themselves lie in the index by word and not by row, so they are
compared by a sum over the hash of each word with its row and place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engram.storage.postings.index import MessageWords
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.varints import read_varints
from engram.storage.sqlite.word_keys import word_row

_SQL = load_queries("sqlite/words.sql")
_MASK = (1 << 64) - 1
_COLUMNS = ("words", "stops")


class Fts5Check:
    """The `WordCheck` of an organisation file."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows = self._sum = self._missing = self._wrong = 0
        self._words = [0] * len(_COLUMNS)

    def expect(self, rows: Iterable[MessageWords]) -> None:
        for key, *parts in rows:
            row = word_row(key)
            sizes = [
                self._add(row, column, text) for column, text in zip(_COLUMNS, parts, strict=True)
            ]
            self._compare_sizes(row, sizes)
            self._rows += 1
            self._words = [sum(pair) for pair in zip(self._words, sizes, strict=True)]

    def faults(self) -> Iterator[str]:
        (present,) = self._ask("count_rows")
        for count, what in (
            (self._missing, "are missing from"),
            (present - self._rows + self._missing, "should not be in"),
            (self._wrong, "have another number of words in"),
        ):
            if count:
                yield f"{count} messages {what} the word index"
        block = self._ask("totals")
        totals = read_varints(block[0]) if block else []
        if totals != [self._rows, *self._words] and (totals or self._rows):
            yield "the word index miscounts its rows or words"
        if self._sum & _MASK != self._stored_sum() & _MASK:
            yield "the word index holds other words than the messages"

    def _add(self, row: int, column: str, text: str) -> int:
        words = [word for word in text.split(" ") if word]
        self._sum += sum(hash((word, row, column, place)) for place, word in enumerate(words))
        return len(words)

    def _compare_sizes(self, row: int, sizes: list[int]) -> None:
        found = self._ask("size_of_row", row)
        if found is None:
            self._missing += 1
        else:
            self._wrong += read_varints(found[0]) != sizes

    def _stored_sum(self) -> int:
        return sum(map(hash, self._connection.execute(_SQL["all_places"])))

    def _ask(self, name: str, *values: int) -> Any:
        return self._connection.execute(_SQL[name], values).fetchone()

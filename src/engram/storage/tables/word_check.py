"""Compare the word indexes with what the messages, analysed again, would put into them.

Sizes are compared row by row. The words themselves lie in an index by word and not by row, so they
are compared by a sum over the hash of each word with its row and place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from engram.storage.tables.database import Connection
from engram.storage.tables.keys import word_row
from engram.storage.tables.queries import load_queries
from engram.storage.tables.tenant import Tenant
from engram.storage.tables.varints import read_varints
from engram.storage.tables.word_rows import Row, Stretch, batches_of_rows

_SQL = load_queries("verification.sql")
_MASK = (1 << 64) - 1


def check_words(connection: Connection, tenant: Tenant) -> Iterator[str]:
    """Yield what is wrong with the word indexes, in words."""
    messages = _IndexCheck(connection, "message")
    windows = _IndexCheck(connection, "window")
    for row in tenant.execute(connection, _SQL["conversation_lengths"]):
        stretch = Stretch(*row)
        for rows in batches_of_rows(connection, tenant, stretch, known=(), skip_damaged=True):
            messages.expect(rows.messages)
            windows.expect(rows.windows)
    yield from messages.faults()
    yield from windows.faults()


class _IndexCheck:
    """One word index, compared with the rows it should hold."""

    def __init__(self, connection: Connection, kind: Literal["message", "window"]) -> None:
        self._connection = connection
        self._kind = kind
        self._rows = self._words = self._sum = self._missing = self._wrong = 0

    def expect(self, rows: Sequence[Row]) -> None:
        """Take rows that should be there."""
        for key, text in rows:
            words = [word for word in text.split(" ") if word]
            row = word_row(key)
            self._compare_size(row, len(words))
            self._rows += 1
            self._words += len(words)
            self._sum += sum(hash((word, row, place)) for place, word in enumerate(words))

    def faults(self) -> Iterator[str]:
        """Yield what was found, once all rows have been expected."""
        (present,) = self._ask("rows")
        for count, what in (
            (self._missing, "are missing from"),
            (present - self._rows + self._missing, "should not be in"),
            (self._wrong, "have another number of words in"),
        ):
            if count:
                yield f"{count} {self._kind}s {what} the word index"
        block = self._ask("totals")
        totals = read_varints(block[0]) if block else []
        if totals != [self._rows, self._words] and (totals or self._rows):
            yield f"the word index of {self._kind}s miscounts its rows or words"
        if self._sum & _MASK != self._stored_sum() & _MASK:
            yield f"the word index of {self._kind}s holds other words than the {self._kind}s"

    def _compare_size(self, row: int, size: int) -> None:
        found = self._ask("size", row)
        if found is None:
            self._missing += 1
        else:
            self._wrong += read_varints(found[0]) != [size]

    def _stored_sum(self) -> int:
        return sum(map(hash, self._connection.execute(_SQL[f"{self._kind}_places"])))

    def _ask(self, name: str, *values: int) -> Any:
        return self._connection.execute(_SQL[f"{self._kind}_{name}"], values).fetchone()

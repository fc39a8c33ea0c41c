"""Remembers how many words the rows of a word index hold: what BM25 needs to know of every row.

A message never changes, and neither does a window once it is complete, so what was read once stays
true; rows of open windows are read anew each time.
"""

from __future__ import annotations

import sqlite3
from threading import Lock
from typing import TYPE_CHECKING

from engram.limits import ROW_LENGTHS_KEPT
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.varints import read_varints
from engram.storage.sqlite.word_filters import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

_SQL = load_queries("words.sql")
_RECENT_SHARE = 64
"""One length in so many may be kept aside before all are sorted again."""


class RowLengths:
    """The lengths of one table's rows, as far as they were asked for."""

    def __init__(self, table: Table) -> None:
        self._statement = _SQL["message_lengths" if table == "message_words" else "window_lengths"]
        self._changing = Lock()
        self._known: tuple[Rows, Rows] | None = None
        """Row ids in ascending order, and the length of each."""
        self._recent: dict[int, int] = {}

    def of(self, connection: sqlite3.Connection, rows: Rows, *, organization_id: int) -> Rows:
        """Return how many words each of these rows holds, which ascend and exist."""
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        lengths = self._look_up(rows)
        missing = np.flatnonzero(lengths < 0)
        if len(missing):
            read = self._read(connection, rows[missing], organization_id)
            lengths[missing] = [read.get(row, 1) for row in rows[missing].tolist()]
        return lengths

    def _look_up(self, rows: Rows) -> Rows:
        """Return the lengths that are known, -1 for the others."""
        import numpy as np  # noqa: PLC0415 as above

        with self._changing:
            known, recent = self._known, self._recent
        lengths = np.full(len(rows), -1, dtype=np.int64)
        if known is not None:
            places = np.minimum(np.searchsorted(known[0], rows), len(known[0]) - 1)
            np.copyto(lengths, known[1][places], where=known[0][places] == rows)
        if recent:
            missing = np.flatnonzero(lengths < 0)
            lengths[missing] = [recent.get(row, -1) for row in rows[missing].tolist()]
        return lengths

    def _read(
        self, connection: sqlite3.Connection, rows: Rows, organization_id: int
    ) -> dict[int, int]:
        values = {"rows": str(rows.tolist()), "organization_id": organization_id}
        found = connection.execute(self._statement, values).fetchall()
        self._remember({row: read_varints(size)[0] for row, size, is_final in found if is_final})
        return {row: read_varints(size)[0] for row, size, _ in found}

    def _remember(self, lengths: dict[int, int]) -> None:
        with self._changing:
            self._recent = {**self._recent, **lengths}
            known = 0 if self._known is None else len(self._known[0])
            if len(self._recent) * _RECENT_SHARE > known:
                self._sort_in()

    def _sort_in(self) -> None:
        import numpy as np  # noqa: PLC0415 as above

        rows = np.fromiter(self._recent.keys(), dtype=np.int64)
        lengths = np.fromiter(self._recent.values(), dtype=np.int64)
        if self._known is not None and len(self._known[0]) + len(rows) <= ROW_LENGTHS_KEPT:
            rows = np.concatenate((self._known[0], rows))
            lengths = np.concatenate((self._known[1], lengths))
        order = np.argsort(rows, kind="stable")
        self._known = rows[order], lengths[order]
        self._recent = {}


class WordLengths:
    """The lengths of both word indexes of one organisation."""

    def __init__(self) -> None:
        self._tables = {
            "message_words": RowLengths("message_words"),
            "window_words": RowLengths("window_words"),
        }

    def of_table(self, table: Table) -> RowLengths:
        """Return the lengths of one table's rows."""
        return self._tables[table]

"""One leg of the word search: the BM25 shares of the rows of one FTS5 table.

FTS5 weighs a word by another formula, which makes a name that half of a small store's messages
hold worth nothing. But its score of one word alone, divided by that weight, is what the word is
worth in the row, and this is then weighed our way.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.word_filters import Conditions, Table
from engram.text import bm25
from engram.text.analyse import is_prefix

_SQL = load_queries("words.sql")
_FTS5_WEIGHT_MIN = 1e-6


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the query that some row holds."""

    match: str
    rows: int
    factor: float
    """Turns FTS5's score of this word alone into its part of the share."""


class WordLeg:
    """The rows of one table that hold words of one query, under the query's conditions."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: Table,
        repeats: Mapping[str, int],
        conditions: Conditions,
    ) -> None:
        self._connection = connection
        self._table: Table = table
        self._conditions = conditions.of_table(table)
        self._values = conditions.values
        self._words = self._weigh(repeats)
        self._any_word = " OR ".join(word.match for word in self._words)
        self.postings = sum(word.rows for word in self._words)
        """How many pairs of a word and a row there are: what `shares` costs."""

    def shares(self) -> dict[int, float]:
        """Return the share of every row that holds a word."""
        return self._sum("all_matches", self._values)

    def shares_among(self, keys: Iterable[int]) -> dict[int, float]:
        """Return the shares of those of `keys` that hold a word."""
        return self._sum("matches_among", {"keys": json.dumps(list(keys))})

    def best(self, limit: int) -> list[int]:
        """Return the rows that FTS5 itself ranks first."""
        rows = self._ask("best_matches", self._any_word, {"limit": limit, **self._values})
        return [key for (key,) in rows]

    def count(self) -> int:
        """Return how many rows hold a word."""
        rows = self._ask("count_matches", self._any_word, self._values)
        return sum(count for (count,) in rows)

    def _weigh(self, repeats: Mapping[str, int]) -> tuple[_Word, ...]:
        texts = self._row_count()
        holding = {term: self._rows_holding(term) for term in repeats}
        weights = {term: bm25.weight(texts=texts, holding=holding[term]) for term in repeats}
        bound = bm25.bound((repeats[term], weights[term]) for term in repeats)
        return tuple(
            _Word(
                _quoted(term),
                rows,
                repeats[term] * weights[term] / bound / _fts5_weight(texts, rows),
            )
            for term, rows in holding.items()
            if rows
        )

    def _row_count(self) -> int:
        row = self._connection.execute(self._statement("statistics")).fetchone()
        return _varint(row[0]) if row and row[0] else 0

    def _rows_holding(self, term: str) -> int:
        statement = self._statement("count_matches", conditions="")
        return self._connection.execute(statement, {"match": _quoted(term)}).fetchone()[0]

    def _sum(self, name: str, values: Mapping[str, Any]) -> dict[int, float]:
        shares: defaultdict[int, float] = defaultdict(float)
        for word in self._words:
            factor = word.factor
            for key, score in self._ask(name, word.match, values):
                shares[key] += score * factor
        return dict(shares)

    def _ask(self, name: str, match: str, values: Mapping[str, Any]) -> list[Any]:
        if not match:
            return []
        statement = self._statement(name, conditions=self._conditions)
        return self._connection.execute(statement, {"match": match, **values}).fetchall()

    def _statement(self, name: str, *, conditions: str = "") -> str:
        statement = _SQL[name].replace("message_words", self._table)
        return statement.replace("/*conditions*/", conditions)


def _quoted(term: str) -> str:
    """Return a term as FTS5 takes it: a string that is no syntax, whatever it holds."""
    text = '"' + term.replace('"', '""') + '"'
    return f"{text} *" if is_prefix(term) else text


def _fts5_weight(texts: int, holding: int) -> float:
    """Return the weight that FTS5's own bm25() gives a word."""
    return max(math.log((texts - holding + 0.5) / (holding + 0.5)), _FTS5_WEIGHT_MIN)


def _varint(block: bytes) -> int:
    """Return the first of SQLite's variable-length integers in a block."""
    value = 0
    for byte in block[:8]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value
    return value << 8 | block[8]

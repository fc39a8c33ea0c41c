"""One leg of the word search: the BM25 shares of the rows of one FTS5 table.

FTS5 weighs a word by another formula, which makes a name that half of a small store's messages
hold worth nothing. But its score of one word alone, divided by that weight, is what the word is
worth in the row, and this is then weighed our way.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.storage.tables.database import Connection
from engram.storage.tables.queries import load_queries
from engram.storage.tables.varints import read_varints
from engram.storage.tables.word_filters import Conditions, Table
from engram.text import bm25
from engram.text.analyse import is_prefix

_SQL = load_queries("words.sql")
_FTS5_WEIGHT_MIN = 1e-6


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the query that some row holds."""

    match: str
    rows: int
    weight: float
    """What the word adds to the share of a row in which it is worth 1."""
    fts5_weight: float
    """What it adds to FTS5's score of that row."""


class WordLeg:
    """The rows of one table that hold words of one query, under the query's conditions."""

    def __init__(
        self,
        connection: Connection,
        table: Table,
        repeats: Mapping[str, int],
        conditions: Conditions,
    ) -> None:
        self._connection = connection
        self._table: Table = table
        self._conditions = conditions.of_table(table)
        self._values = conditions.values
        self._words = self._weigh(repeats)

    def shares_among(self, keys: Collection[int]) -> dict[int, float]:
        """Return the shares of those of `keys` that hold a word, and meet the conditions."""
        shares: defaultdict[int, float] = defaultdict(float)
        values = {"keys": json.dumps(list(keys)), **self._values}
        for word in self._words:
            # SQLite reads the list anew for each word: a rare word is cheaper asked for whole.
            name = "all_matches" if word.rows <= len(keys) else "matches_among"
            _add(shares, word, self._ask(name, word.match, values))
        return {key: shares[key] for key in keys if key in shares}

    def best(self, limit: int, *, wanted: int) -> list[int]:
        """Return the `limit` rows that FTS5 itself ranks first.

        Common words are left out where no row that holds only these can be among the best `wanted`.
        """
        some = _telling(self._words, wanted)
        if len(some) < len(self._words):
            rows = self._rank(some, limit)
            if len(rows) >= wanted and rows[wanted - 1][1] >= _most(self._words[len(some) :]):
                return [key for key, _ in rows]
        return [key for key, _ in self._rank(self._words, limit)]

    def _weigh(self, repeats: Mapping[str, int]) -> tuple[_Word, ...]:
        """Return the words that some row holds, the rarest first."""
        texts = self._row_count()
        holding = {term: self._rows_holding(term) for term in repeats}
        weights = {term: bm25.weight(texts=texts, holding=rows) for term, rows in holding.items()}
        bound = bm25.bound((repeats[term], weight) for term, weight in weights.items())
        words = (
            _Word(
                _quoted(term),
                rows,
                repeats[term] * weights[term] / bound,
                _fts5_weight(texts, rows),
            )
            for term, rows in holding.items()
            if rows
        )
        return tuple(sorted(words, key=lambda word: (word.rows, word.match)))

    def _rank(self, words: Sequence[_Word], limit: int) -> list[tuple[int, float]]:
        """Return FTS5's first rows for some words, each with what its share is at least."""
        rows = self._ask("best_matches", _any_of(words), {"limit": limit, **self._values})
        least = min((word.weight / word.fts5_weight for word in words), default=0.0)
        return [(key, score * least) for key, score in rows]

    def _row_count(self) -> int:
        name = "message" if self._table == "message_words" else "window"
        row = self._connection.execute(_SQL[f"{name}_statistics"]).fetchone()
        return read_varints(row[0])[0] if row and row[0] else 0

    def _rows_holding(self, term: str) -> int:
        statement = self._statement("count_matches", conditions="")
        return self._connection.execute(statement, {"match": _quoted(term)}).fetchone()[0]

    def _ask(self, name: str, match: str, values: Mapping[str, Any]) -> list[Any]:
        if not match:
            return []
        statement = self._statement(name, conditions=self._conditions)
        return self._connection.execute(statement, {"match": match, **values}).fetchall()

    def _statement(self, name: str, *, conditions: str = "") -> str:
        statement = _SQL[name].replace("message_words", self._table)
        return statement.replace("/*conditions*/", conditions)


def _any_of(words: Iterable[_Word]) -> str:
    return " OR ".join(word.match for word in words)


def _most(words: Iterable[_Word]) -> float:
    """Return what a row can have at most of its share from some words."""
    return sum(word.weight for word in words) * bm25.WORTH_MAX


def _telling(words: Sequence[_Word], wanted: int) -> Sequence[_Word]:
    """Return the rarest words that may suffice to find the best `wanted` rows.

    They do when enough rows hold one of them that tells more than all the other words can.
    """
    rows, told = 0, 0.0
    for count, word in enumerate(words, start=1):
        rows += word.rows
        told = told or (word.weight if rows >= wanted else 0.0)
        if told > _most(words[count:]):
            return words[:count]
    return words


def _add(
    shares: defaultdict[int, float], word: _Word, matches: Iterable[tuple[int, float]]
) -> None:
    factor = word.weight / word.fts5_weight
    for key, score in matches:
        shares[key] += score * factor


def _quoted(term: str) -> str:
    """Return a term as FTS5 takes it: a string that is no syntax, whatever it holds."""
    text = '"' + term.replace('"', '""') + '"'
    return f"{text} *" if is_prefix(term) else text


def _fts5_weight(texts: int, holding: int) -> float:
    """Return the weight that FTS5's own bm25() gives a word."""
    return max(math.log((texts - holding + 0.5) / (holding + 0.5)), _FTS5_WEIGHT_MIN)

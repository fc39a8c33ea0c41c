"""One leg of the word search in a store that is not huge: BM25 of every row that holds a word.

FTS5 gives the places of each word, which takes a third of the time that its own scores take, and
the scores of all rows are then made at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from engram.storage.sqlite.keys import keys_of_word_rows
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.varints import read_varints
from engram.storage.sqlite.word_filters import Table
from engram.storage.sqlite.word_lengths import RowLengths
from engram.text import bm25
from engram.text.analyse import is_prefix

_SQL = load_queries("words.sql")

Keys = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shares:
    """Keys in ascending order, and the share of each."""

    keys: Keys
    shares: Values

    @classmethod
    def of(cls, shares: Mapping[int, float]) -> Shares:
        """Return a mapping as columns."""
        keys = np.fromiter(shares.keys(), dtype=np.int64, count=len(shares))
        values = np.fromiter(shares.values(), dtype=np.float64, count=len(shares))
        order = np.argsort(keys)
        return cls(keys[order], values[order])

    def best_first(self) -> Keys:
        """Return the keys by their shares, ties by key."""
        return self.keys[np.lexsort((self.keys, -self.shares))]

    def only(self, wanted: NDArray[np.bool_]) -> Shares:
        """Return some of them."""
        return Shares(self.keys[wanted], self.shares[wanted])

    def among(self, keys: Keys) -> Values:
        """Return the share of each of `keys`, 0 where there is none."""
        places = places_among(keys, self.keys)
        return np.where(places < 0, 0.0, np.append(self.shares, 0.0)[places])


@dataclass(frozen=True, slots=True)
class _Postings:
    """The rows that hold a word, in ascending order, and how often each does."""

    rows: Keys
    counts: Keys


class WordScan:
    """The rows of one table that hold words of one query."""

    def __init__(self, connection: sqlite3.Connection, table: Table) -> None:
        self._connection = connection
        self._table: Table = table
        self.rows, self._words = self._statistics()

    def shares(
        self, repeats: Mapping[str, int], lengths: RowLengths, *, organization_id: int
    ) -> Shares:
        """Return the share of every row that holds a word of the query."""
        postings = {term: self._postings(term) for term in repeats}
        rows, places = np.unique(
            np.concatenate([_NO_ROWS, *(held.rows for held in postings.values())]),
            return_inverse=True,
        )
        if not len(rows):
            return Shares(_NO_ROWS, np.empty(0))
        weights = {
            term: bm25.weight(texts=self.rows, holding=len(held.rows))
            for term, held in postings.items()
        }
        bound = bm25.bound((repeats[term], weight) for term, weight in weights.items())
        factors = [
            np.full(len(held.rows), repeats[term] * weights[term] / bound)
            for term, held in postings.items()
        ]
        counts = np.concatenate([held.counts for held in postings.values()])
        row_lengths = lengths.of(self._connection, rows, organization_id=organization_id)
        worths = bm25.worths(
            occurrences=counts,
            lengths=row_lengths[places],
            length_average=self._words / self.rows,
        )
        shares = np.zeros(len(rows))
        np.add.at(shares, places, np.concatenate(factors) * worths)
        keys = keys_of_word_rows(rows)
        order = np.argsort(keys)
        return Shares(keys[order], shares[order])

    def _statistics(self) -> tuple[int, int]:
        """Return how many rows there are, and how many words they hold together."""
        row = self._connection.execute(self._statement("statistics")).fetchone()
        rows, words, *_ = [*(read_varints(row[0]) if row and row[0] else ()), 0, 0]
        return rows, words

    def _postings(self, term: str) -> _Postings:
        name = "places_of_prefix" if is_prefix(term) else "places_of_word"
        cursor = self._connection.execute(self._statement(name), {"term": term})
        docs = np.fromiter(map(itemgetter(0), cursor), dtype=np.int64)
        # Places of one word come row by row; those of a prefix word by word.
        ordered = np.sort(docs) if is_prefix(term) else docs
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return _Postings(ordered[starts], np.diff(starts, append=len(ordered)))

    def _statement(self, name: str) -> str:
        if self._table == "message_words":
            return _SQL[name]
        return _SQL[name].replace("message_word", "window_word")


_NO_ROWS: Keys = np.empty(0, dtype=np.int64)


def places_among(keys: Keys, ascending: Keys) -> Keys:
    """Return where each key is among ascending ones, -1 where it is not."""
    places = np.searchsorted(ascending, keys)
    found = np.append(ascending, -1)[places] == keys
    return np.where(found, places, -1)

"""Read from an FTS5 table which messages hold the words of a query, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.storage.postings.index import Postings
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.word_keys import keys_of_word_rows
from engram.text.analyse import is_prefix
from engram.vectors.arrays import run_lengths

_SQL = load_queries("sqlite/words.sql")

_Rows = NDArray[np.int64]


def read_postings(connection: Connection, terms: Sequence[str]) -> Postings:
    """Return who holds the terms.

    A statement for each: one for all of them took as long, and must say where a term ends.
    """
    held = [_rows_of(connection, term) for term in terms]
    rows = np.concatenate([_NONE, *held])
    sizes = np.array([len(each) for each in held], dtype=np.int64)
    is_first = np.ones(len(rows), dtype=np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    ends = sizes.cumsum()
    is_first[ends[ends < len(rows)]] = True
    starts = is_first.nonzero()[0]
    return Postings(
        terms=np.repeat(np.arange(len(held)), sizes).take(starts),
        keys=keys_of_word_rows(rows.take(starts)),
        counts=run_lengths(starts, len(rows)),
    )


def _rows_of(connection: Connection, term: str) -> _Rows:
    """Return the row of every place of a term; those of one row come together."""
    if not is_prefix(term):
        return _places(connection, "places_of_word", term)
    return np.sort(_places(connection, "places_of_prefix", term))


def _places(connection: Connection, name: str, term: str) -> _Rows:
    (rows,) = connection.execute(_SQL[name], {"term": term}).fetchone()
    return np.fromstring(rows or "", dtype=np.int64, sep=",")


_NONE: _Rows = np.empty(0, dtype=np.int64)

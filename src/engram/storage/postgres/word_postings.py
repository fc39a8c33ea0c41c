"""Read which messages hold the words of a query, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.storage.postings.index import Postings
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.text.analyse import is_prefix

_SQL = load_queries("postgres/words.sql")

_Numbers = NDArray[np.int64]


def read_postings(
    connection: Connection, terms: Sequence[str], *, organization_id: int
) -> Postings:
    """Return who holds the terms.

    Numbers come as bytes: a row of its own for each would take many times as long.
    """
    words = [term for term in terms if not is_prefix(term)]
    held = _of_words(connection, words, organization_id=organization_id)
    for term in set(terms).difference(words):
        held[term] = _of_prefix(connection, term, organization_id=organization_id)
    entries = [held.get(term, _NOTHING) for term in terms]
    return Postings(
        terms=np.repeat(np.arange(len(terms)), [len(keys) for keys, _ in entries]),
        keys=np.concatenate([_NONE, *(keys for keys, _ in entries)]),
        counts=np.concatenate([_NONE, *(counts for _, counts in entries)]),
    )


def _of_words(
    connection: Connection, words: Sequence[str], *, organization_id: int
) -> dict[str, tuple[_Numbers, _Numbers]]:
    values = {"organization_id": organization_id, "terms": list(words)}
    rows = connection.execute(_SQL["postings"], values)
    return {term: _numbers(keys, counts) for term, keys, counts in rows}


def _of_prefix(
    connection: Connection, term: str, *, organization_id: int
) -> tuple[_Numbers, _Numbers]:
    values = {"organization_id": organization_id, "first": term}
    row = connection.execute(_SQL["postings_of_prefix"], values).fetchone()
    return _numbers(row[0] or b"", row[1] or b"")


def _numbers(keys: bytes, counts: bytes) -> tuple[_Numbers, _Numbers]:
    return (
        np.frombuffer(keys, dtype=">i8").astype(np.int64),
        np.frombuffer(counts, dtype=">i4").astype(np.int64),
    )


_NONE: _Numbers = np.empty(0, dtype=np.int64)
_NOTHING = (_NONE, _NONE)

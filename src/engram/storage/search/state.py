"""What a search has to know of the whole organisation, read once for all of its steps."""

from __future__ import annotations

from typing import NamedTuple

from engram.errors import StoreCorruptError
from engram.storage.bookkeeping.counters import COUNTERS_MISSING
from engram.storage.postings.index import WordStatistics
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("search/words.sql")


class SearchState(NamedTuple):
    """What is the same for every question until the next change."""

    windows: WordStatistics
    revision: int
    """Of the word index."""
    pending: int
    """Messages that wait for deep vectors."""


def read_search_state(connection: Connection, *, organization_id: int) -> SearchState:
    """Return what a search has to know of the organisation.

    Raises:
        StoreCorruptError: the counters are gone.
    """
    values = {"organization_id": organization_id}
    row = connection.execute(_SQL["search_state"], values).fetchone()
    if row is None:
        raise StoreCorruptError(COUNTERS_MISSING)
    windows, words, revision, pending = row
    return SearchState(WordStatistics(windows, words), revision, pending)

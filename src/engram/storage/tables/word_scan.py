"""The word search in a store that is not huge: BM25 of everything that holds a word.

FTS5 gives the places of each word in messages, which takes a fraction of the time that its own
scores take; the windows follow from them, and the scores are then made all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.storage.tables.database import Connection
from engram.storage.tables.keys import SEQUENCE_BITS, keys_of_word_rows
from engram.storage.tables.known_rows import KnownRows
from engram.storage.tables.queries import load_queries
from engram.storage.tables.varints import read_varints
from engram.text import bm25
from engram.text.analyse import is_prefix
from engram.text.english import STOP_WORDS
from engram.vectors.ranking import highest
from engram.vectors.runs import distinct, distinct_places, run_starts

_SQL = load_queries("words.sql")
_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1

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

    def best(self, limit: int) -> Keys:
        """Return the first `limit` keys by their shares, ties by key."""
        rows = highest(self.shares, limit)
        order = np.argsort(-self.shares.take(rows), kind="stable")
        return self.keys.take(rows.take(order[:limit]))

    def only(self, wanted: NDArray[np.bool_]) -> Shares:
        """Return some of them."""
        return Shares(self.keys[wanted], self.shares[wanted])

    def among(self, keys: Keys) -> Values:
        """Return the share of each of `keys`, 0 where there is none."""
        if not len(self.keys):
            return np.zeros(len(keys))
        places = np.searchsorted(self.keys, keys)
        is_here = self.keys.take(places, mode="clip") == keys
        return np.where(is_here, self.shares.take(places, mode="clip"), 0.0)


@dataclass(frozen=True, slots=True)
class _Counts:
    """How often each text holds each term of a query."""

    keys: Keys
    """Of the texts, in ascending order."""
    counts: Keys
    """A row for each term, a column for each text."""

    def only(self, wanted: NDArray[np.bool_]) -> _Counts:
        """Return some of the texts."""
        return _Counts(self.keys[wanted], self.counts[:, wanted])


class _Statistics(NamedTuple):
    texts: int
    words: int
    """Of all texts together."""


class WordScan:
    """Every place of a query's words in messages, and so in their windows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._messages = self._statistics("message_statistics")
        self._windows = self._statistics("window_statistics")

    @property
    def texts(self) -> int:
        """Return how many messages and windows there are."""
        return self._messages.texts + self._windows.texts

    def shares(
        self, repeats: Mapping[str, int], known: KnownRows, *, organization_id: int
    ) -> tuple[Shares, Shares]:
        """Return the shares of all messages, and of all windows, that hold a word of the query."""
        terms = [*repeats]
        messages = self._in_messages(terms)
        # Windows are not asked: what their messages hold, they hold too.
        windows = _in_windows(messages, [term not in STOP_WORDS for term in terms])
        lengths = known.message_lengths(
            self._connection, messages.keys, organization_id=organization_id
        )
        window_lengths = known.window_lengths(
            self._connection, windows.keys, organization_id=organization_id
        )
        # After the last messages of a conversation a window may be missing still.
        is_there = window_lengths >= 0
        asked = [*repeats.values()]
        return (
            _shares(messages, lengths, asked, self._messages),
            _shares(windows.only(is_there), window_lengths[is_there], asked, self._windows),
        )

    def _statistics(self, name: str) -> _Statistics:
        row = self._connection.execute(_SQL[name]).fetchone()
        texts, words, *_ = [*(read_varints(row[0]) if row and row[0] else ()), 0, 0]
        return _Statistics(texts, words)

    def _in_messages(self, terms: Sequence[str]) -> _Counts:
        rows = [self._rows_of(term) for term in terms]
        keys, places = distinct_places(keys_of_word_rows(np.concatenate([_NO_KEYS, *rows])))
        owners = np.repeat(np.arange(len(terms)), [len(held) for held in rows])
        size = len(terms) * len(keys)
        counts = np.bincount(owners * len(keys) + places, minlength=size)
        return _Counts(keys, counts.reshape(len(terms), len(keys)))

    def _rows_of(self, term: str) -> Keys:
        name = "places_of_prefix" if is_prefix(term) else "places_of_word"
        (rows,) = self._connection.execute(_SQL[name], {"term": term}).fetchone()
        return np.fromstring(rows or "", dtype=np.int64, sep=",")


def _shares(
    held: _Counts, lengths: Keys, repeats: Sequence[int], statistics: _Statistics
) -> Shares:
    """Return the share of every text that holds a word."""
    holding = np.count_nonzero(held.counts, axis=1).tolist()
    weights = [
        count * bm25.weight(texts=statistics.texts, holding=texts)
        for count, texts in zip(repeats, holding, strict=True)
    ]
    bound = bm25.bound((1, weight) for weight in weights)
    worths = bm25.worths(
        occurrences=held.counts,
        lengths=lengths,
        length_average=statistics.words / max(statistics.texts, 1),
    )
    # Not a product of matrices: how that adds up depends on the machine.
    shares = (np.array(weights).reshape(-1, 1) * worths).sum(axis=0)
    return Shares(held.keys, shares / bound if bound else shares)


def _in_windows(messages: _Counts, are_found: Sequence[bool]) -> _Counts:
    """Return how often windows hold the terms that they are found by, from what messages hold."""
    first, last = windows_holding(messages.keys)
    has_two = first < last
    parts = [_summed(last, messages.counts), _summed(first[has_two], messages.counts[:, has_two])]
    keys = distinct(np.concatenate([part.keys for part in parts]))
    counts = np.zeros((len(are_found), len(keys)), dtype=np.int64)
    for part in parts:
        counts[:, np.searchsorted(keys, part.keys)] += part.counts
    counts[~np.array(are_found, dtype=np.bool_)] = 0
    # A window of stop words alone is found by none of its words.
    return _Counts(keys, counts).only(counts.max(axis=0, initial=0) > 0)


def _summed(owners: Keys, counts: Keys) -> _Counts:
    """Return the sums of the columns of each owner; owners ascend."""
    starts = run_starts(owners)
    if not len(starts):
        return _Counts(owners, counts)
    return _Counts(owners[starts], np.add.reduceat(counts, starts, axis=1))


def windows_holding(keys: Keys) -> tuple[Keys, Keys]:
    """Return the first and the last window of each message, possibly past its conversation's end."""
    conversations, sequences = keys & ~_SEQUENCE_MASK, keys & _SEQUENCE_MASK
    first = np.maximum(0, -((WINDOW_MESSAGES - sequences) // WINDOW_STRIDE))
    return conversations + first, conversations + (sequences - 1) // WINDOW_STRIDE


_NO_KEYS: Keys = np.empty(0, dtype=np.int64)


def are_among(keys: Keys, ascending: Keys) -> NDArray[np.bool_]:
    """Say of each key whether it is among ascending ones."""
    if not len(ascending):
        return np.zeros(len(keys), dtype=np.bool_)
    return ascending.take(np.searchsorted(ascending, keys), mode="clip") == keys

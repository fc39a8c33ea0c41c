"""The word search in a store that is not huge: BM25 of everything that holds a word.

FTS5 gives the places of each word in messages, which takes a fraction of the time that its own
scores take; the windows follow from them, and the scores are then made all at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.storage.sqlite.keys import SEQUENCE_BITS, keys_of_word_rows
from engram.storage.sqlite.known_rows import KnownRows
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.varints import read_varints
from engram.text import bm25
from engram.text.analyse import is_prefix
from engram.text.english import STOP_WORDS

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
    """What holds words of a query: by term, then by key, and how often each holds it."""

    terms: NDArray[np.intp]
    """The place of the term in the query."""
    keys: Keys
    counts: Keys

    @classmethod
    def counted(cls, terms: NDArray[np.intp], keys: Keys, counts: Keys) -> _Postings:
        """Return each pair of a term and a key once, with the sum of its counts."""
        order = np.lexsort((keys, terms))
        terms, keys, counts = terms[order], keys[order], counts[order]
        is_new = (np.diff(terms, prepend=-1) != 0) | (np.diff(keys, prepend=-1) != 0)
        starts = np.flatnonzero(is_new)
        if not len(starts):
            return cls(terms, keys, counts)
        return cls(terms[starts], keys[starts], np.add.reduceat(counts, starts))

    def only(self, wanted: NDArray[np.bool_]) -> _Postings:
        """Return some of them."""
        return _Postings(self.terms[wanted], self.keys[wanted], self.counts[wanted])


class _Statistics(NamedTuple):
    texts: int
    words: int
    """Of all texts together."""


class WordScan:
    """Every place of a query's words in messages, and so in their windows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
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
        asked = partial(_shares, repeats=[*repeats.values()])
        messages = self._postings([*repeats])
        # Windows are not asked: what their messages hold, they hold too.
        windows = _in_windows(messages, [*repeats])
        lengths = known.message_lengths(
            self._connection, messages.keys, organization_id=organization_id
        )
        window_lengths = known.window_lengths(
            self._connection, windows.keys, organization_id=organization_id
        )
        # After the last messages of a conversation a window may be missing still.
        is_there = window_lengths >= 0
        return (
            asked(messages, lengths=lengths, statistics=self._messages),
            asked(
                windows.only(is_there),
                lengths=window_lengths[is_there],
                statistics=self._windows,
            ),
        )

    def _statistics(self, name: str) -> _Statistics:
        row = self._connection.execute(_SQL[name]).fetchone()
        texts, words, *_ = [*(read_varints(row[0]) if row and row[0] else ()), 0, 0]
        return _Statistics(texts, words)

    def _postings(self, terms: Sequence[str]) -> _Postings:
        rows = [self._rows_of(term) for term in terms]
        keys = keys_of_word_rows(np.concatenate([_NO_KEYS, *rows]))
        owners = np.repeat(np.arange(len(terms)), [len(held) for held in rows])
        return _Postings.counted(owners, keys, np.ones(len(keys), dtype=np.int64))

    def _rows_of(self, term: str) -> Keys:
        name = "places_of_prefix" if is_prefix(term) else "places_of_word"
        cursor = self._connection.execute(_SQL[name], {"term": term})
        return np.fromiter(map(itemgetter(0), cursor), dtype=np.int64)


def _shares(
    held: _Postings, *, repeats: Sequence[int], lengths: Keys, statistics: _Statistics
) -> Shares:
    """Return the share of everything that holds a word."""
    holding = np.bincount(held.terms, minlength=len(repeats)).tolist()
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
    keys, places = np.unique(held.keys, return_inverse=True)
    shares = np.zeros(len(keys))
    np.add.at(shares, places, np.array(weights)[held.terms] / bound * worths)
    return Shares(keys, shares)


def _in_windows(held: _Postings, terms: Sequence[str]) -> _Postings:
    """Return the windows that hold words, from the messages that do."""
    # Windows are not found by stop words.
    is_found = np.array([term not in STOP_WORDS for term in terms], dtype=np.bool_)
    held = held.only(is_found[held.terms])
    first, last = windows_holding(held.keys)
    has_two = first < last
    return _Postings.counted(
        np.concatenate((held.terms, held.terms[has_two])),
        np.concatenate((last, first[has_two])),
        np.concatenate((held.counts, held.counts[has_two])),
    )


def windows_holding(keys: Keys) -> tuple[Keys, Keys]:
    """Return the first and the last window of each message, possibly past its conversation's end."""
    conversations, sequences = keys & ~_SEQUENCE_MASK, keys & _SEQUENCE_MASK
    first = np.maximum(0, -((WINDOW_MESSAGES - sequences) // WINDOW_STRIDE))
    return conversations + first, conversations + (sequences - 1) // WINDOW_STRIDE


_NO_KEYS: Keys = np.empty(0, dtype=np.int64)


def distinct(keys: Keys) -> Keys:
    """Return the keys in ascending order, each once; quicker for so few than `np.unique`."""
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=-1) != 0]


def places_among(keys: Keys, ascending: Keys) -> Keys:
    """Return where each key is among ascending ones, -1 where it is not."""
    places = np.searchsorted(ascending, keys)
    found = np.append(ascending, -1)[places] == keys
    return np.where(found, places, -1)

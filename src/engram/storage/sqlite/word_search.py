"""Find the messages that hold words of a query, each with its shares of both lexical legs."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.storage.sqlite.keys import SEQUENCE_BITS, conversation_of, position_of, window_key
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.word_filters import Conditions
from engram.storage.sqlite.word_leg import WordLeg
from engram.text.windows import window_numbers_holding

_SQL = load_queries("words.sql")

_POSTINGS_MAX = 20_000
"""Above this the rows are first chosen by FTS5's own ranking, which scores a row for all words at once."""

_CHOSEN_PER_CANDIDATE = 3
"""How many rows are chosen for each that is wanted: the two rankings differ in common words only."""

_PAST_ENDS = 16
"""Messages of windows read beyond those wanted: a few lie past the end of their conversation."""

_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1

Keys = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WordMatches:
    """The best messages of both lexical legs and others asked about, ordered by key."""

    keys: Keys
    characters: Keys
    said_at: Keys
    messages: Values
    """The share of each message itself."""
    windows: Values
    """The share of its best window."""
    total: int
    """Messages under the conditions that hold a word of the query, or else are found here."""


def search_words(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    *,
    conditions: Conditions,
    limit: int,
    also: Keys | None = None,
) -> WordMatches:
    """Return the best `limit` messages of each lexical leg and those of `also`, united.

    Each comes with the shares of both legs, whichever of them proposed it. None is found that
    does not exist or meet the conditions.
    """
    near = np.empty(0, dtype=np.int64) if also is None else also
    search = _WordSearch(connection, Counter(terms), conditions, limit, near)
    return search.score_all() if search.is_small else search.score_chosen()


@dataclass(frozen=True, slots=True)
class _Shares:
    """Keys in ascending order, and the share of each."""

    keys: Keys
    shares: Values

    @classmethod
    def of(cls, shares: Mapping[int, float]) -> _Shares:
        """Return a mapping as columns."""
        keys = np.fromiter(shares.keys(), dtype=np.int64, count=len(shares))
        values = np.fromiter(shares.values(), dtype=np.float64, count=len(shares))
        order = np.argsort(keys)
        return cls(keys[order], values[order])

    def best_first(self) -> Keys:
        """Return the keys by their shares, ties by key."""
        return self.keys[np.lexsort((self.keys, -self.shares))]

    def among(self, keys: Keys) -> Values:
        """Return the share of each of `keys`, 0 where there is none."""
        places = _places(keys, self.keys)
        return np.where(places < 0, 0.0, np.append(self.shares, 0.0)[places])


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is known of messages before they are read, by ascending keys."""

    keys: Keys
    characters: Keys
    said_at: Keys

    def only(self, keys: Keys) -> _Rows:
        """Return the rows of those of `keys` that are here."""
        wanted = _are_among(self.keys, np.sort(keys))
        return _Rows(self.keys[wanted], self.characters[wanted], self.said_at[wanted])


class _WordSearch:
    """One query, asked of both legs under the same conditions."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        repeats: Mapping[str, int],
        conditions: Conditions,
        limit: int,
        also: Keys,
    ) -> None:
        self._connection = connection
        self._conditions = conditions
        self._limit = limit
        self._also = also
        self._messages = WordLeg(connection, "message_words", repeats, conditions)
        self._windows = WordLeg(connection, "window_words", repeats, conditions)

    @property
    def is_small(self) -> bool:
        return self._messages.postings + self._windows.postings <= _POSTINGS_MAX

    def score_all(self) -> WordMatches:
        """Score every row that holds a word of the query."""
        messages = _Shares.of(self._messages.shares())
        in_windows, order = _spread(_Shares.of(self._windows.shares()))
        return self._matches(messages, in_windows, order, total=len(messages.keys))

    def score_chosen(self) -> WordMatches:
        """Score what FTS5 ranks first in either leg, and the same messages in the other leg."""
        count = self._limit * _CHOSEN_PER_CANDIDATE
        also = self._also.tolist()
        chosen = self._messages.best(count, wanted=self._limit)
        around = self._windows.best(count, wanted=self._limit)
        around += [window for key in (*chosen, *also) for window in _windows_holding(key)]
        in_windows, order = _spread(_Shares.of(self._windows.shares_among(set(around))))
        asked = {*chosen, *order[:count].tolist(), *also}
        messages = _Shares.of(self._messages.shares_among(asked))
        return self._matches(messages, in_windows, order, total=self._messages.count())

    def _matches(
        self, messages: _Shares, in_windows: _Shares, order: Keys, *, total: int
    ) -> WordMatches:
        """Return the best messages of both legs, and those that were asked about.

        `order` are the keys of windows' messages, best first; some lie past a conversation's end.
        """
        best = np.concatenate((messages.best_first()[: self._limit], self._also))
        tried = self._limit + _PAST_ENDS
        while True:
            rows = self._rows(np.concatenate((best, order[:tried])))
            around = order[:tried][_are_among(order[:tried], rows.keys)]
            if len(around) >= self._limit or tried >= len(order):
                break
            tried *= 2
        found = rows.only(np.concatenate((best, around[: self._limit])))
        return WordMatches(
            keys=found.keys,
            characters=found.characters,
            said_at=found.said_at,
            messages=messages.among(found.keys),
            windows=in_windows.among(found.keys),
            total=max(total, len(found.keys)),
        )

    def _rows(self, keys: Keys) -> _Rows:
        """Return those of the messages that exist and meet the conditions."""
        statement = _SQL["found_rows"].replace("/*conditions*/", self._conditions.message)
        values = {"keys": str(list(set(keys.tolist()))), **self._conditions.values}
        rows = self._connection.execute(statement, values).fetchall()
        return _Rows(*np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T)


def _places(keys: Keys, ascending: Keys) -> Keys:
    """Return where each key is among ascending ones, -1 where it is not."""
    places = np.searchsorted(ascending, keys)
    found = np.append(ascending, -1)[places] == keys
    return np.where(found, places, -1)


def _are_among(keys: Keys, ascending: Keys) -> NDArray[np.bool_]:
    return _places(keys, ascending) >= 0


def _spread(windows: _Shares) -> tuple[_Shares, Keys]:
    """Return for each message the share of its best window, and the messages best first.

    Some keys lie past the end of a conversation: its last window may be short.
    """
    order = np.lexsort((windows.keys, -windows.shares))
    ordered = windows.keys[order]
    firsts = (ordered & ~_SEQUENCE_MASK) + (ordered & _SEQUENCE_MASK) * WINDOW_STRIDE + 1
    spread = (firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)).reshape(-1)
    keys, places = np.unique(spread, return_index=True)
    shares = windows.shares[order][places // WINDOW_MESSAGES]
    return _Shares(keys, shares), spread[np.sort(places)]


def _windows_holding(message: int) -> list[int]:
    """Return the keys of a message's windows, the last possibly past the conversation's end."""
    sequence = position_of(message)
    numbers = window_numbers_holding(sequence, last_sequence=sequence + WINDOW_MESSAGES)
    return [window_key(conversation_of(message), number) for number in numbers]

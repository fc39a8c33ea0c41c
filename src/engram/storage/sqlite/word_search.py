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
from engram.storage.sqlite.word_filters import Conditions, Table
from engram.storage.sqlite.word_leg import WordLeg
from engram.storage.sqlite.word_lengths import WordLengths
from engram.storage.sqlite.word_scan import Shares, WordScan, places_among
from engram.text.windows import window_numbers_holding
from engram.vectors.snapshot import Allowed, KeyRanges

_SQL = load_queries("words.sql")

_SCANNED_MAX = 1_000_000
"""Where so many pairs of a row and a word are possible, rows are first chosen by FTS5's own ranking."""

_CHOSEN_PER_CANDIDATE = 3
"""How many rows are chosen for each that is wanted: the two rankings differ in common words only."""

_PAST_ENDS = 16
"""Messages of windows read beyond those wanted: a few lie past the end of their conversation."""

_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1

Keys = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Asking:
    """What a word search has to respect."""

    conditions: Conditions
    allowed: Allowed | None
    """The keys that meet the conditions, in ascending order; None is all of them."""
    lengths: WordLengths
    limit: int
    """How many messages each leg proposes."""
    also: Keys
    """Messages that others have proposed."""


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


def search_words(
    connection: sqlite3.Connection, terms: Sequence[str], asked: Asking
) -> WordMatches:
    """Return the best messages of each lexical leg and those of `asked.also`, united.

    Each comes with the shares of both legs, whichever of them proposed it. None is found that
    does not exist or meet the conditions.
    """
    repeats = Counter(terms)
    scans = WordScan(connection, "message_words"), WordScan(connection, "window_words")
    most = len(repeats) * sum(scan.rows for scan in scans)
    if most <= _SCANNED_MAX:
        return _Scanning(connection, repeats, asked).matches(*scans)
    return _Choosing(connection, repeats, asked).matches()


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
        self, connection: sqlite3.Connection, repeats: Mapping[str, int], asked: Asking
    ) -> None:
        self._connection = connection
        self._repeats = repeats
        self._asked = asked

    def _matches(self, messages: Shares, in_windows: Shares, order: Keys) -> WordMatches:
        """Return the best messages of both legs, and those that were asked about.

        `order` are the keys of windows' messages, best first; some lie past a conversation's end.
        """
        best = np.concatenate((messages.best_first()[: self._asked.limit], self._asked.also))
        tried = self._asked.limit + _PAST_ENDS
        while True:
            rows = self._rows(np.concatenate((best, order[:tried])))
            around = order[:tried][_are_among(order[:tried], rows.keys)]
            if len(around) >= self._asked.limit or tried >= len(order):
                break
            tried *= 2
        found = rows.only(np.concatenate((best, around[: self._asked.limit])))
        return WordMatches(
            keys=found.keys,
            characters=found.characters,
            said_at=found.said_at,
            messages=messages.among(found.keys),
            windows=in_windows.among(found.keys),
        )

    def _rows(self, keys: Keys) -> _Rows:
        """Return those of the messages that exist and meet the conditions."""
        statement = _SQL["found_rows"].replace("/*conditions*/", self._asked.conditions.message)
        values = {"keys": str(list(set(keys.tolist()))), **self._asked.conditions.values}
        rows = self._connection.execute(statement, values).fetchall()
        return _Rows(*np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T)


class _Scanning(_WordSearch):
    """Scores every row that holds a word of the query."""

    def matches(self, messages: WordScan, windows: WordScan) -> WordMatches:
        """Return the best of all messages."""
        own = self._allowed(self._shares(messages, "message_words"))
        around, order = _spread(self._shares(windows, "window_words"))
        if self._asked.allowed is not None:
            order = order[are_allowed(order, self._asked.allowed)]
        return self._matches(own, around, order)

    def _shares(self, scan: WordScan, table: Table) -> Shares:
        lengths = self._asked.lengths.of_table(table)
        return scan.shares(
            self._repeats, lengths, organization_id=self._asked.conditions.values["organization_id"]
        )

    def _allowed(self, shares: Shares) -> Shares:
        if self._asked.allowed is None:
            return shares
        return shares.only(are_allowed(shares.keys, self._asked.allowed))


class _Choosing(_WordSearch):
    """Scores what FTS5 ranks first in either leg, and the same messages in the other leg."""

    def matches(self) -> WordMatches:
        """Return the best of the chosen messages."""
        asked = self._asked
        own = WordLeg(self._connection, "message_words", self._repeats, asked.conditions)
        windows = WordLeg(self._connection, "window_words", self._repeats, asked.conditions)
        count, also = asked.limit * _CHOSEN_PER_CANDIDATE, asked.also.tolist()
        chosen = own.best(count, wanted=asked.limit)
        around = windows.best(count, wanted=asked.limit)
        around += [window for key in (*chosen, *also) for window in _windows_holding(key)]
        in_windows, order = _spread(Shares.of(windows.shares_among(set(around))))
        candidates = {*chosen, *order[:count].tolist(), *also}
        return self._matches(Shares.of(own.shares_among(candidates)), in_windows, order)


def are_allowed(keys: Keys, allowed: Allowed) -> NDArray[np.bool_]:
    """Say of each key whether it is among those allowed."""
    if not isinstance(allowed, KeyRanges):
        return _are_among(keys, allowed)
    if not len(allowed.firsts):
        return np.zeros(len(keys), dtype=np.bool_)
    places = np.searchsorted(allowed.firsts, keys, side="right") - 1
    return (places >= 0) & (keys <= allowed.lasts[places])


def _are_among(keys: Keys, ascending: Keys) -> NDArray[np.bool_]:
    return places_among(keys, ascending) >= 0


def _spread(windows: Shares) -> tuple[Shares, Keys]:
    """Return for each message the share of its best window, and the messages best first.

    Some keys lie past the end of a conversation: its last window may be short.
    """
    order = np.lexsort((windows.keys, -windows.shares))
    ordered = windows.keys[order]
    firsts = (ordered & ~_SEQUENCE_MASK) + (ordered & _SEQUENCE_MASK) * WINDOW_STRIDE + 1
    spread = (firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)).reshape(-1)
    keys, places = np.unique(spread, return_index=True)
    shares = windows.shares[order][places // WINDOW_MESSAGES]
    return Shares(keys, shares), spread[np.sort(places)]


def _windows_holding(message: int) -> list[int]:
    """Return the keys of a message's windows, the last possibly past the conversation's end."""
    sequence = position_of(message)
    numbers = window_numbers_holding(sequence, last_sequence=sequence + WINDOW_MESSAGES)
    return [window_key(conversation_of(message), number) for number in numbers]

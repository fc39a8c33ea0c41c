"""The word indexes of an organisation file: two FTS5 tables of analysed words.

Both tables are contentless and hold what `engram.text.analyse` made of messages and windows, so
the tokenizer has only to keep our tokens as they are (every character above ASCII is part of a
token there, and so are the three that the analyser uses):

    CREATE VIRTUAL TABLE message_words USING fts5(
        words, content = '', tokenize = "ascii tokenchars '_+#'"
    );
    CREATE VIRTUAL TABLE window_words USING fts5(
        words, content = '', tokenize = "ascii tokenchars '_+#'"
    );

Their rows go by the keys of `engram.storage.sqlite.keys`. A contentless row is removed by the very
words it was indexed with; any others would leave the index damaged.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.storage.sqlite.keys import conversation_of, message_key, position_of, window_key
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.word_filters import Conditions
from engram.storage.sqlite.word_leg import WordLeg
from engram.text.windows import window_numbers_holding

_SQL = load_queries("words.sql")

_POSTINGS_MAX = 20_000
"""Above this the rows are first chosen by FTS5's own ranking, which scores a row for all words at once."""

_CHOSEN_PER_CANDIDATE = 3
"""How many rows are chosen for each that is wanted: the two rankings differ in common words only."""


def index_messages(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Add messages to their word index, as pairs of row id and words."""
    connection.executemany(_SQL["index_message"], rows)


def unindex_messages(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Remove messages from their word index, given the very words they were added with."""
    connection.executemany(_SQL["unindex_message"], rows)


def index_windows(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Add windows to their word index, as pairs of row id and words."""
    connection.executemany(_SQL["index_window"], rows)


def unindex_windows(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Remove windows from their word index, given the very words they were added with."""
    connection.executemany(_SQL["unindex_window"], rows)


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The best messages of both lexical legs and others asked about, each with both legs' shares."""

    found: Mapping[int, FoundRow]
    """By key: what exists and meets the conditions."""
    messages: Mapping[int, float]
    windows: Mapping[int, float]
    total: int
    """Messages under the conditions that hold a word of the query, or else are found here."""


class FoundRow(NamedTuple):
    """What is known of a message before it is read."""

    characters: int
    said_at: int


def search_words(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    *,
    conditions: Conditions,
    limit: int,
    also: Sequence[int] = (),
) -> WordMatches:
    """Return the best `limit` messages of each lexical leg and those of `also`, united.

    Each comes with the shares of both legs, whichever of them proposed it.
    """
    search = _WordSearch(connection, Counter(terms), conditions, limit, also)
    return search.score_all() if search.is_small else search.score_chosen()


class _WordSearch:
    """One query, asked of both legs under the same conditions."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        repeats: Mapping[str, int],
        conditions: Conditions,
        limit: int,
        also: Sequence[int],
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
        messages, in_windows = self._messages.shares(), _spread(self._windows.shares())
        return self._matches(messages, in_windows, total=len(messages))

    def score_chosen(self) -> WordMatches:
        """Score what FTS5 ranks first in either leg, and the same messages in the other leg."""
        count = self._limit * _CHOSEN_PER_CANDIDATE
        chosen = self._messages.best(count, wanted=self._limit)
        around = self._windows.best(count, wanted=self._limit)
        around += [window for key in (*chosen, *self._also) for window in _windows_holding(key)]
        in_windows = _spread(self._windows.shares_among(set(around)))
        messages = self._messages.shares_among({*chosen, *islice(in_windows, count), *self._also})
        return self._matches(messages, in_windows, total=self._messages.count())

    def _matches(
        self, messages: Mapping[int, float], in_windows: Mapping[int, float], *, total: int
    ) -> WordMatches:
        """Return the best messages of both legs, and those that were asked about."""
        ranked = nsmallest(self._limit, ((-share, key) for key, share in messages.items()))
        found = self._rows([*(key for _, key in ranked), *self._also])
        found |= self._first_rows(in_windows)
        return WordMatches(found, messages, in_windows, total=max(total, len(found)))

    def _first_rows(self, keys: Iterable[int]) -> dict[int, FoundRow]:
        """Return the first messages that exist and meet the conditions."""
        found: dict[int, FoundRow] = {}
        left = iter(keys)
        while len(found) < self._limit and (some := list(islice(left, self._limit))):
            rows = self._rows(some)
            found |= {key: rows[key] for key in some if key in rows}
        return dict(islice(found.items(), self._limit))

    def _rows(self, keys: Sequence[int]) -> dict[int, FoundRow]:
        statement = _SQL["found_rows"].replace("/*conditions*/", self._conditions.message)
        values = {"keys": json.dumps(keys), **self._conditions.values}
        rows = self._connection.execute(statement, values)
        return {key: FoundRow(characters, said_at) for key, characters, said_at in rows}


def _spread(windows: Mapping[int, float]) -> dict[int, float]:
    """Return for each message the share of its best window, the best first, ties by key.

    Some keys lie past the end of a conversation: its last window may be short.
    """
    spread: dict[int, float] = {}
    for share, window in sorted((-share, window) for window, share in windows.items()):
        first = message_key(conversation_of(window), position_of(window) * WINDOW_STRIDE + 1)
        for key in range(first, first + WINDOW_MESSAGES):
            if key not in spread:
                spread[key] = -share
    return spread


def _windows_holding(message: int) -> list[int]:
    """Return the keys of a message's windows, the last possibly past the conversation's end."""
    sequence = position_of(message)
    numbers = window_numbers_holding(sequence, last_sequence=sequence + WINDOW_MESSAGES)
    return [window_key(conversation_of(message), number) for number in numbers]

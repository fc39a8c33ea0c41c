"""Find the messages that hold words of a query, each with its shares of both lexical legs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import SEQUENCE_MASK
from engram.storage.postings.index import WordIndex
from engram.storage.postings.posting_cache import PostingCache
from engram.storage.postings.row_cache import RowCache, RowsAtRevision
from engram.storage.postings.scan import (
    Shares,
    WordScan,
    are_among,
    windows_holding,
)
from engram.storage.rows.database import Connection
from engram.storage.search.state import SearchState
from engram.vectors.arrays import distinct, run_starts
from engram.vectors.snapshot import Allowed, KeyRanges

Keys = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Asking:
    """What a word search has to respect."""

    organization_id: int
    state: SearchState
    index: WordIndex
    row_cache: RowCache
    posting_cache: PostingCache
    allowed: Allowed | None
    """The keys that may be found, in ascending order; None is all of them."""
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
    are_documents: NDArray[np.bool_]
    messages: Values
    """The share of each message itself."""
    windows: Values
    """The share of its best window."""


def search_words(connection: Connection, terms: Sequence[str], asked: Asking) -> WordMatches:
    """Return the best messages of each lexical leg and those of `asked.also`, united.

    Each comes with the shares of both legs, whichever of them proposed it. None is found that
    does not exist or is not allowed.
    """
    owner = asked.organization_id
    revision = asked.state.revision
    rows = asked.row_cache.at(
        revision, partial(asked.index.lengths, connection, organization_id=owner)
    )
    words = asked.posting_cache.at(revision, connection, asked.index, organization_id=owner)
    messages, windows = WordScan(words, rows, windows=asked.state.windows).shares(Counter(terms))
    if asked.allowed is not None:
        messages = messages.only(are_allowed(messages.keys, asked.allowed))
    return _Choice(connection, asked, rows).matches(messages, windows)


class _Choice:
    """The choice of the best messages of both legs under the same conditions."""

    def __init__(self, connection: Connection, asked: Asking, known: RowsAtRevision) -> None:
        self._connection = connection
        self._asked = asked
        self._known = known

    def matches(self, messages: Shares, windows: Shares) -> WordMatches:
        """Return the best messages of both legs, and those that were asked about."""
        limit = self._asked.limit
        best = np.concatenate((messages.best(limit), self._asked.also))
        tried = math.ceil(limit / WINDOW_STRIDE)
        while True:
            around = self._allowed(_messages_of(windows.best(tried)))
            keys = distinct(np.concatenate((best, around)))
            facts = self._facts(keys)
            are_there = facts[:, 0] >= 0
            places = keys.searchsorted(around)
            places = places[are_there.take(places)]
            if len(places) >= limit or tried >= len(windows.keys):
                break
            tried *= 2
        are_found = np.zeros(len(keys), dtype=np.bool_)
        are_found[keys.searchsorted(best)] = True
        are_found[places[:limit]] = True
        are_found &= are_there
        keys, facts = keys[are_found], facts[are_found]
        return WordMatches(
            keys=keys,
            characters=facts[:, 0],
            said_at=facts[:, 1],
            are_documents=facts[:, 2] == 1,
            messages=messages.among(keys),
            windows=windows.among(np.array(windows_holding(keys))).max(axis=0),
        )

    def _facts(self, keys: Keys) -> Keys:
        """Return of each message its characters, its moment and whether it is a document.

        All are below 0 where there is none.
        """
        return self._known.messages(
            self._connection, keys, organization_id=self._asked.organization_id
        )

    def _allowed(self, keys: Keys) -> Keys:
        """Return those of the keys that may be found."""
        if self._asked.allowed is None:
            return keys
        return keys[are_allowed(keys, self._asked.allowed)]


def are_allowed(keys: Keys, allowed: Allowed) -> NDArray[np.bool_]:
    """Say of each key whether it is among those allowed."""
    if not isinstance(allowed, KeyRanges):
        return are_among(keys, allowed)
    if not len(allowed.firsts):
        return np.zeros(len(keys), dtype=np.bool_)
    places = np.searchsorted(allowed.firsts, keys, side="right") - 1
    return (places >= 0) & (keys <= allowed.lasts[places])


def _messages_of(windows: Keys) -> Keys:
    """Return the messages of windows, each once, in the order of their first window.

    Some lie past the end of a conversation: its last window may be short.
    """
    firsts = (windows & ~SEQUENCE_MASK) + (windows & SEQUENCE_MASK) * WINDOW_STRIDE + 1
    messages = (firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)).reshape(-1)
    order = np.argsort(messages, kind="stable")
    places = order.take(run_starts(messages.take(order)))
    return messages.take(np.sort(places))

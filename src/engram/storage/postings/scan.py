"""BM25 scores of all messages and windows that contain a word of a query.

Posting lists give the occurrences in messages. Those in windows are added up from their messages, and
all scores are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram import limits
from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import SEQUENCE_MASK
from engram.storage.postings.caches import RowsAtRevision, WordsAtRevision
from engram.storage.postings.index import Postings, WordStatistics
from engram.text import bm25
from engram.text.analyse import STOP_WORDS, is_identifier
from engram.vectors.arrays import distinct_places, highest, run_lengths, run_starts

_DENSE_MAX = 16
"""Sums are made in a dense array of up to so many cells for each entry, else by sorting."""

_IN_BOTH = WINDOW_MESSAGES - WINDOW_STRIDE
"""Messages that a window begins with, and the window before ends with."""

RARE_TEXTS_MAX = 5
"""An identifier in more messages than this is part of the project's vocabulary."""

Keys = NDArray[np.int64]
Values = NDArray[np.float64]

_NO_KEYS: Keys = np.empty(0, dtype=np.int64)
_NO_VALUES: Values = np.empty(0)


@dataclass(frozen=True, slots=True)
class Shares:
    """Keys in ascending order, with the share of each."""

    keys: Keys
    shares: Values

    def best(self, limit: int) -> Keys:
        """Return the `limit` keys with the highest shares, ties by key."""
        rows = highest(self.shares, limit)
        order = (-self.shares.take(rows)).argsort(kind="stable")
        return self.keys.take(rows.take(order[:limit]))

    def among(self, keys: Keys) -> Values:
        """Return the share of each of `keys`, 0 if it has none."""
        return self._at(keys, self.shares)

    def _at(self, keys: Keys, values: Values) -> Values:
        if not len(self.keys):
            return np.zeros(keys.shape)
        places = self.keys.searchsorted(keys)
        is_here = self.keys.take(places, mode="clip") == keys
        return np.where(is_here, values.take(places, mode="clip"), 0.0)


@dataclass(frozen=True, slots=True)
class MessageShares(Shares):
    """The shares of messages, with the coverage of each."""

    coverages: Values
    """The part of the query's weight that belongs to words which the text contains.

    A text that contains a rare identifier of the query covers it.
    """

    def only(self, wanted: NDArray[np.bool_]) -> MessageShares:
        """Return those selected by a mask."""
        return MessageShares(self.keys[wanted], self.shares[wanted], self.coverages[wanted])

    def coverages_among(self, keys: Keys) -> Values:
        """Return the coverage of each of `keys`, 0 if it contains no word of the query."""
        return self._at(keys, self.coverages)


class WordScan:
    """Scores the messages that contain a word of a query, and their windows."""

    def __init__(
        self,
        words: WordsAtRevision,
        rows: RowsAtRevision,
        *,
        windows: WordStatistics,
        prepare: Callable[[Keys, Keys], None] | None = None,
    ) -> None:
        """Score by posting lists; `prepare` is called with the messages and windows that will be scored."""
        self._words = words
        self._rows = rows
        self._windows = windows
        self._prepare = prepare

    def shares(self, repeats: Mapping[str, int]) -> tuple[MessageShares, Shares]:
        """Return the shares of all messages, and of all windows, that contain a word of the query."""
        terms, counts = [*repeats], [*repeats.values()]
        found = self._words.postings(terms)
        if not len(found.keys):
            return MessageShares(_NO_KEYS, _NO_VALUES, _NO_VALUES), Shares(_NO_KEYS, _NO_VALUES)
        in_messages = _Occurrences.of(found)
        # A window is found by none of its stop words.
        in_windows = _in_windows(in_messages, np.array([each not in STOP_WORDS for each in terms]))
        if self._prepare is not None:
            self._prepare(in_messages.keys, in_windows.keys)
        lengths = self._rows.message_lengths(in_messages.keys)
        window_lengths = self._rows.window_lengths(in_windows.keys)
        return (
            _message_shares(in_messages, lengths, repeats, self._words.statistics()),
            _window_shares(in_windows, window_lengths, counts, self._windows),
        )


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """Occurrences of the terms of a query: an entry for each term and text."""

    keys: Keys
    """Of the texts, in ascending order, each once."""
    terms: Keys
    """Of each entry the term; these ascend."""
    places: Keys
    """The place of the text among `keys`."""
    counts: Keys

    @classmethod
    def of(cls, found: Postings) -> _Occurrences:
        keys, places = distinct_places(found.keys)
        return cls(keys, found.terms, places, found.counts)

    def among(self, wanted: NDArray[np.bool_]) -> _Occurrences:
        """Return the occurrences of the terms selected by a mask."""
        entries = wanted.take(self.terms)
        places = self.places[entries]
        is_left = np.zeros(len(self.keys), dtype=np.bool_)
        is_left[places] = True
        left = (is_left.cumsum() - 1).take(places)
        return _Occurrences(self.keys[is_left], self.terms[entries], left, self.counts[entries])

    def holding(self, terms: int) -> Keys:
        """Return how many of the texts contain each of so many terms."""
        return np.diff(self.terms.searchsorted(np.arange(terms + 1)))


def _message_shares(
    held: _Occurrences, lengths: Keys, repeats: Mapping[str, int], statistics: WordStatistics
) -> MessageShares:
    """Return the shares and coverages of messages."""
    holding = held.holding(len(repeats)).tolist()
    weights = _weights(holding, [*repeats.values()], statistics)
    coverages = np.bincount(held.places, weights.take(held.terms), minlength=len(held.keys))
    coverages /= float(weights.sum()) or 1.0
    for place, term in enumerate(repeats):
        if holding[place] <= RARE_TEXTS_MAX and is_identifier(term):
            coverages[held.places[held.terms == place]] = 1.0
    counts, words = held.counts.astype(np.float64), lengths
    if lengths.max() > limits.WORD_PASSAGE_WORDS:
        counts = _in_one_passage(counts, lengths.take(held.places))
        words = np.minimum(lengths, limits.WORD_PASSAGE_WORDS)
    shares = _shares(held, counts, words, weights, statistics)
    return MessageShares(held.keys, shares, coverages)


def _window_shares(
    held: _Occurrences, lengths: Keys, repeats: Sequence[int], statistics: WordStatistics
) -> Shares:
    """Return the shares of those windows that exist: one after the last messages of a conversation may not yet."""
    holding, is_there = held.holding(len(repeats)), lengths >= 0
    is_gone = ~is_there.take(held.places)
    holding -= np.bincount(held.terms[is_gone], minlength=len(repeats))
    weights = _weights(holding.tolist(), repeats, statistics)
    counts = held.counts.astype(np.float64)
    shares = _shares(held, counts, np.maximum(lengths, 0), weights, statistics)
    return Shares(held.keys[is_there], shares[is_there])


def _weights(holding: Sequence[int], repeats: Sequence[int], statistics: WordStatistics) -> Values:
    """Return the weight of each term, as often as the query repeats it."""
    return np.array(
        [
            count * bm25.weight(texts=statistics.texts, holding=texts)
            for count, texts in zip(repeats, holding, strict=True)
        ]
    )


def _shares(
    held: _Occurrences,
    counts: Values,
    lengths: Keys,
    weights: Values,
    statistics: WordStatistics,
) -> Values:
    """Return the share of every text: its BM25 score, divided by the highest that is possible."""
    saturations = bm25.saturations(
        lengths, length_average=max(statistics.words, 1) / max(statistics.texts, 1)
    )
    worths = bm25.worths(occurrences=counts, saturations=saturations.take(held.places))
    # Added up in the order of the terms, so that the sum is the same on every machine.
    worths *= weights.take(held.terms)
    scores = np.bincount(held.places, worths, minlength=len(held.keys))
    return scores / ((float(weights.sum()) or 1.0) * bm25.WORTH_MAX)


def _in_one_passage(counts: Values, lengths: Keys) -> Values:
    """Return the occurrences of words in a passage of their texts.

    A word that a long text contains stands in one of its passages, with as many of its repeats as
    would be there if they were spread evenly. Which passage that is, delivery finds out.
    """
    within = np.minimum(lengths, limits.WORD_PASSAGE_WORDS)
    return np.maximum(1.0, counts * within / np.maximum(lengths, 1))


def _in_windows(messages: _Occurrences, telling: NDArray[np.bool_]) -> _Occurrences:
    """Return the occurrences of some terms in windows, added up from their messages."""
    if not telling.all():
        messages = messages.among(telling)
    if not len(messages.keys):
        return messages
    windows, in_last, has_two = _windows_of(messages.keys)
    owners = messages.terms * len(windows) + in_last.take(messages.places)
    in_two = has_two.take(messages.places).nonzero()[0]
    # The window before the last one of a message is the one before it here, too.
    owners = np.concatenate((owners, owners.take(in_two) - 1))
    counts = np.concatenate((messages.counts, messages.counts.take(in_two)))
    terms = int(messages.terms[-1]) + 1
    held, sums = _summed(owners, counts, size=terms * len(windows))
    bounds = held.searchsorted(np.arange(terms + 1) * len(windows))
    of_terms = np.arange(terms).repeat(np.diff(bounds))
    return _Occurrences(windows, of_terms, held - of_terms * len(windows), sums)


def _windows_of(keys: Keys) -> tuple[Keys, Keys, NDArray[np.bool_]]:
    """Return the windows of messages, given in ascending order, without sorting them.

    They ascend. With them come the place among them of each message's last window, and whether it is in two:
    then in the window before as well.
    """
    last, has_two = _last_windows(keys)
    starts = run_starts(last)
    lasts = last.take(starts)
    # A window that is the last of no message is that before one which is, whose first messages it ends with.
    is_alone = has_two.take(starts)
    is_alone[1:] &= lasts[1:] != lasts[:-1] + 1
    places = np.arange(len(lasts)) + is_alone.cumsum()
    windows = np.empty(int(places[-1]) + 1, dtype=np.int64)
    windows[places[is_alone] - 1] = lasts[is_alone] - 1
    windows[places] = lasts
    return windows, places.repeat(run_lengths(starts, len(last))), has_two


def _summed(owners: Keys, counts: Keys, *, size: int) -> tuple[Keys, Keys]:
    """Return the owners below `size` in ascending order, and the sum of the counts of each."""
    if size <= _DENSE_MAX * len(owners):
        sums = np.bincount(owners, counts, minlength=size)
        # Four times as fast as to look for floats that are not zero.
        present = (sums > 0).nonzero()[0]
        return present, sums.take(present).astype(np.int64)
    order = np.argsort(owners, kind="stable")
    owners = owners.take(order)
    starts = run_starts(owners)
    return owners.take(starts), np.add.reduceat(counts.take(order), starts)


def windows_holding(keys: Keys) -> tuple[Keys, Keys]:
    """Return the first and the last window of each message, possibly past its conversation's end."""
    last, has_two = _last_windows(keys)
    return last - has_two, last


def _last_windows(keys: Keys) -> tuple[Keys, NDArray[np.bool_]]:
    """Return the last window of each message, and whether the message is in the window before as well."""
    positions = (keys & SEQUENCE_MASK) - 1
    numbers = positions // WINDOW_STRIDE
    is_early = positions - WINDOW_STRIDE * numbers < _IN_BOTH
    return keys - positions + (numbers - 1), is_early & (numbers > 0)

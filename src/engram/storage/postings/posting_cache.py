"""Remembers who holds the words asked for last: the next question often has some of them again.

What the index of words says is true as long as its revision is the same, so nothing outlives a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engram.limits import POSTINGS_KEPT
from engram.storage.postings.index import Postings, WordIndex, WordStatistics
from engram.storage.rows.database import Connection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]


class _Holders(NamedTuple):
    """Who holds one term, and how often."""

    keys: Keys
    counts: Keys


class KnownWords:
    """What is known of an organisation's words; shared by all threads."""

    def __init__(self) -> None:
        self._latest = _Remembered(-1)

    def at(
        self, revision: int, connection: Connection, index: WordIndex, *, organization_id: int
    ) -> WordsAtRevision:
        """Return what is known, and can be asked, at a revision of the index."""
        latest = self._latest
        if latest.revision != revision:
            latest = self._latest = _Remembered(revision)
        return WordsAtRevision(latest, connection, index, organization_id=organization_id)


class WordsAtRevision:
    """What is known of words, and can be asked, in one snapshot."""

    def __init__(
        self,
        known: _Remembered,
        connection: Connection,
        index: WordIndex,
        *,
        organization_id: int,
    ) -> None:
        self._known = known
        self._connection = connection
        self._index = index
        self._organization_id = organization_id

    def statistics(self) -> WordStatistics:
        """Return how many messages there are, and how many words they have."""
        if self._known.statistics is None:
            self._known.statistics = self._index.statistics(
                self._connection, organization_id=self._organization_id
            )
        return self._known.statistics

    def postings(self, terms: Sequence[str]) -> Postings:
        """Return who holds the terms, which differ."""
        found = self._known.look_up(terms)
        missing = [term for term in terms if term not in found]
        if missing:
            read = self._index.postings(
                self._connection, missing, organization_id=self._organization_id
            )
            new = _by_term(read, missing)
            self._known.keep(new)
            found |= new
        return _joined([found[term] for term in terms])


class _Remembered:
    """What the index said at one revision, as far as it was asked."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.statistics: WordStatistics | None = None
        self._changing = Lock()
        self._holders: dict[str, _Holders] = {}
        self._entries = 0

    def look_up(self, terms: Iterable[str]) -> dict[str, _Holders]:
        """Return who holds those of the terms that are known."""
        holders = self._holders
        return {term: holders[term] for term in terms if term in holders}

    def keep(self, new: Mapping[str, _Holders]) -> None:
        """Remember terms; when there is no room, those before them are forgotten."""
        with self._changing:
            for term, each in new.items():
                if len(each.keys) > POSTINGS_KEPT:
                    continue
                if self._entries + len(each.keys) > POSTINGS_KEPT:
                    self._holders, self._entries = {}, 0
                # Copies: a part of an array keeps the whole of it.
                self._holders[term] = _Holders(each.keys.copy(), each.counts.copy())
                self._entries += len(each.keys)


def _by_term(found: Postings, terms: Sequence[str]) -> dict[str, _Holders]:
    import numpy as np  # noqa: PLC0415 a store that is not searched does without

    bounds = found.terms.searchsorted(np.arange(len(terms) + 1)).tolist()
    return {
        term: _Holders(found.keys[start:end], found.counts[start:end])
        for term, start, end in zip(terms, bounds, bounds[1:], strict=False)
    }


def _joined(holders: Sequence[_Holders]) -> Postings:
    import numpy as np  # noqa: PLC0415 as above

    none = np.empty(0, dtype=np.int64)
    return Postings(
        terms=np.arange(len(holders)).repeat([len(each.keys) for each in holders]),
        keys=np.concatenate([none, *(each.keys for each in holders)]),
        counts=np.concatenate([none, *(each.counts for each in holders)]),
    )

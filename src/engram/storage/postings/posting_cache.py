"""Cache of posting lists, dropped when the word index changes: queries often share words.

An entry is valid for one revision of the index, so nothing outlives a change.
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


class _PostingList(NamedTuple):
    """The posting list of one term."""

    keys: Keys
    counts: Keys


class PostingCache:
    """Posting lists of one organisation; safe to use from several threads."""

    def __init__(self) -> None:
        self._latest = _Entries(-1)

    def at(
        self, revision: int, connection: Connection, index: WordIndex, *, organization_id: int
    ) -> WordsAtRevision:
        """Return the posting lists of a revision of the index, read where they are not cached."""
        latest = self._latest
        if latest.revision != revision:
            latest = self._latest = _Entries(revision)
        return WordsAtRevision(latest, connection, index, organization_id=organization_id)


class WordsAtRevision:
    """The posting lists of one snapshot."""

    def __init__(
        self,
        entries: _Entries,
        connection: Connection,
        index: WordIndex,
        *,
        organization_id: int,
    ) -> None:
        self._entries = entries
        self._connection = connection
        self._index = index
        self._organization_id = organization_id

    def statistics(self) -> WordStatistics:
        """Return how many messages there are, and how many words they have."""
        if self._entries.statistics is None:
            self._entries.statistics = self._index.statistics(
                self._connection, organization_id=self._organization_id
            )
        return self._entries.statistics

    def postings(self, terms: Sequence[str]) -> Postings:
        """Return the posting lists of distinct terms."""
        found = self._entries.look_up(terms)
        missing = [term for term in terms if term not in found]
        if missing:
            read = self._index.postings(
                self._connection, missing, organization_id=self._organization_id
            )
            new = _by_term(read, missing)
            self._entries.add(new)
            found |= new
        return _joined([found[term] for term in terms])


class _Entries:
    """The entries of one revision."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.statistics: WordStatistics | None = None
        self._changing = Lock()
        self._lists: dict[str, _PostingList] = {}
        self._count = 0

    def look_up(self, terms: Iterable[str]) -> dict[str, _PostingList]:
        """Return the posting lists of those terms that are cached."""
        lists = self._lists
        return {term: lists[term] for term in terms if term in lists}

    def add(self, new: Mapping[str, _PostingList]) -> None:
        """Add posting lists; a cache that would outgrow its bound is emptied first."""
        with self._changing:
            for term, each in new.items():
                if len(each.keys) > POSTINGS_KEPT:
                    continue
                if self._count + len(each.keys) > POSTINGS_KEPT:
                    self._lists, self._count = {}, 0
                # Copies: a part of an array keeps the whole of it.
                self._lists[term] = _PostingList(each.keys.copy(), each.counts.copy())
                self._count += len(each.keys)


def _by_term(found: Postings, terms: Sequence[str]) -> dict[str, _PostingList]:
    import numpy as np  # noqa: PLC0415 a store that is not searched does without

    bounds = found.terms.searchsorted(np.arange(len(terms) + 1)).tolist()
    return {
        term: _PostingList(found.keys[start:end], found.counts[start:end])
        for term, start, end in zip(terms, bounds, bounds[1:], strict=False)
    }


def _joined(holders: Sequence[_PostingList]) -> Postings:
    import numpy as np  # noqa: PLC0415 as above

    none = np.empty(0, dtype=np.int64)
    return Postings(
        terms=np.arange(len(holders)).repeat([len(each.keys) for each in holders]),
        keys=np.concatenate([none, *(each.keys for each in holders)]),
        counts=np.concatenate([none, *(each.counts for each in holders)]),
    )

"""A word index without a store around it, and the messages that it should have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from engram.model.row_keys import message_key
from engram.storage.postings.index import MessageWords, Postings, WordIndex

ORGANIZATION = 7


class IndexedWords:
    """A word index that several processes change in turn, and the messages it should have."""

    def __init__(self, connection: Any, *processes: WordIndex) -> None:
        self.connection = connection
        self.rows: dict[int, MessageWords] = {}
        self._processes = [*processes]

    @property
    def index(self) -> WordIndex:
        """Return the index of the process whose turn it is."""
        self._processes.append(self._processes.pop(0))
        return self._processes[0]

    def add(self, given: Sequence[tuple[int, int, str, str]]) -> None:
        """Add messages: conversation, sequence, words and stop words."""
        new = {message_key(*each[:2]): each[2:] for each in given}
        added = [MessageWords(key, *new[key]) for key in new.keys() - self.rows.keys()]
        self.index.add(self.connection, added, organization_id=ORGANIZATION)
        self.rows |= {row.key: row for row in added}

    def remove(self, places: set[int]) -> None:
        """Remove messages, given by their places."""
        keys = [key for place, key in enumerate([*self.rows]) if place in places]
        removed = [self.rows.pop(key) for key in keys]
        self.index.remove(self.connection, removed, organization_id=ORGANIZATION)

    def merge_some(self, _: None = None) -> bool:
        """Take one step of a merge."""
        return self.index.merge(self.connection, organization_id=ORGANIZATION)

    def merge(self, _: None = None) -> None:
        """Merge all that is to be merged."""
        while self.merge_some():
            pass

    def postings(self, *terms: str) -> Postings:
        """Return what a search reads."""
        return self.index.postings(self.connection, terms, organization_id=ORGANIZATION)

    def counts(self, term: str) -> dict[int, int]:
        """Return how often each message has a term, as a search reads it."""
        found = self.postings(term)
        counts = dict(zip(found.keys.tolist(), found.counts.tolist(), strict=True))
        assert len(counts) == len(found.keys)
        return counts

    def expected(self, term: str) -> dict[int, int]:
        """Return how often each message has a term."""
        counts = {
            row.key: Counter(f"{row.telling} {row.stops}".split())[term]
            for row in self.rows.values()
        }
        return {key: count for key, count in counts.items() if count}

    def faults(self) -> list[str]:
        """Return what a check finds."""
        check = self.index.check(self.connection, organization_id=ORGANIZATION)
        check.expect(self.rows.values())
        return [*check.faults()]

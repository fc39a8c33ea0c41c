"""Cache of a word index in blocks: the tail, and posting lists from pages and blocks.

Most writes add one row to the tail and increment the revision. The difference between the revision and the
number of tail rows stays constant then, and grows with any other change, such as a merge or a removal. That
difference identifies an *epoch*: within it pages and blocks do not change, so the server only has to return new
tail rows. An index without a revision is not cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.limits import WINDOW_MESSAGES
from engram.model.row_keys import SEQUENCE_BITS, SEQUENCE_MASK
from engram.storage.postings.blocks import PackedBlock, Tail, TailSearch
from engram.storage.postings.caches import APPENDS_NOTED, ListCache
from engram.storage.postings.index import Growth, PostingList
from engram.storage.postings.lengths import PAGE_BITS, length_rows_together
from engram.vectors.arrays import distinct

Keys = NDArray[np.int64]

_STATES_KEPT = 2
"""Searches that run at the same time may see the index before and after an append."""

_NEAR_MAX = 64
"""Messages that were added last whose neighbours' lengths a search has without asking for them."""


class Answer(NamedTuple):
    """The columns of the statement `postings`."""

    revision: int | None
    generation: int
    tail_rows: int
    rows_known: int
    """Rows of the tail that were cached when this was asked for; only those after them are here."""
    asked: list[str]
    """The terms whose pages and blocks are here."""
    words: bytes | None
    hashes: bytes | None
    messages: bytes | None
    block_sizes: bytes | None
    blocks: bytes | None
    page_sizes: bytes | None
    pages: bytes | None
    near_pages: list[int]
    """Those of lengths near the last message of each new row: all that they have is here."""
    length_pages: bytes | None
    length_sizes: bytes | None
    lengths: bytes | None

    @property
    def epoch(self) -> Epoch | None:
        """Return the epoch of the index, if its revision is known."""
        if self.revision is None:
            return None
        return Epoch(self.generation, self.revision - self.tail_rows)

    def tail(self) -> TailSearch:
        """Return the rows of the tail."""
        return TailSearch.of([Tail(self.words or b"", self.hashes or b"", self.messages or b"")])

    def lists(self) -> dict[str, PostingList]:
        """Return what pages and blocks have of each term that was asked for."""
        found: dict[str, list[PostingList]] = {term: [] for term in self.asked}
        for packed in (
            *_parted(self.block_sizes, self.blocks),
            *_parted(self.page_sizes, self.pages),
        ):
            for term, *posted in PackedBlock(packed).look_up(self.asked):
                found[term].append(PostingList(*posted))
        return {term: joined_lists(lists) for term, lists in found.items()}


class Epoch(NamedTuple):
    """A time in which an index changes only by rows that are added to its tail."""

    generation: int
    revision: int
    """That of the index, less one for each row of the tail."""


class _Epoch:
    """What is cached of an epoch."""

    def __init__(self, name: Epoch) -> None:
        self.name = name
        self.lists = ListCache()
        """Without the tail."""
        self.messages = dict[int, int]()
        """How many messages the tail has, by the number of its rows."""


class IndexState(NamedTuple):
    """An index at a revision."""

    of_epoch: _Epoch
    rows: int
    tail: TailSearch
    lengths: Keys
    """Rows of key, words that tell something and all words."""
    measured: Keys
    """Messages near those that were added last. Without a length here, there is none."""

    @property
    def revision(self) -> int:
        """Return the revision of the index."""
        return self.of_epoch.name.revision + self.rows


class BlockCache:
    """What searches have read of the index of one organisation. Thread-safe."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._states: tuple[IndexState, ...] = ()
        """Of one epoch, the last one first."""

    def known(self, terms: Sequence[str]) -> Mapping[str, Any]:
        """Return what is cached, as the statement `postings` is told it."""
        states = self._states
        if not states:
            return nothing_known(terms)
        state = states[0]
        found = state.of_epoch.lists.look_up(terms)
        return {
            "missing": [term for term in terms if term not in found],
            "generation": state.of_epoch.name.generation,
            "epoch": state.of_epoch.name.revision,
            "rows": state.rows,
        }

    def take(self, answer: Answer, terms: Sequence[str]) -> dict[str, PostingList] | None:
        """Cache an answer and return the posting lists of terms; None if it relies on entries that were evicted meanwhile."""
        tail, held = self._tail(answer), answer.lists()
        if tail is None:
            return None
        state = self._keep(answer, tail)
        if state is not None:
            cached = state.of_epoch.lists
            held |= cached.look_up([term for term in terms if term not in held])
            cached.add({term: held[term] for term in answer.asked})
        if any(term not in held for term in terms):
            return None
        return {
            term: joined_lists((held[term], PostingList(*tail.look_up(term)))) for term in terms
        }

    def clear(self) -> None:
        """Drop everything."""
        with self._changing:
            self._states = ()

    def grown(self, since: int, revision: int) -> Growth | None:
        """Return what was added between two revisions; None if that is not known."""
        for state in self._states:
            if state.revision == revision:
                return _growth(state, since)
        return None

    def _tail(self, answer: Answer) -> TailSearch | None:
        """Return the whole tail: the cached rows and those of an answer; None if the earlier rows are no longer cached."""
        if not answer.rows_known:
            return answer.tail()
        rows = {
            state.rows: state.tail for state in self._states if state.of_epoch.name == answer.epoch
        }
        if answer.tail_rows in rows:
            return rows[answer.tail_rows]
        before = rows.get(answer.rows_known)
        return None if before is None else before.followed_by(answer.tail())

    def _keep(self, answer: Answer, tail: TailSearch) -> IndexState | None:
        """Keep the state of the index that an answer describes."""
        name = answer.epoch
        if name is None:
            return None
        with self._changing:
            states = [each for each in self._states if each.of_epoch.name == name]
            of_epoch = states[0].of_epoch if states else _Epoch(name)
            of_epoch.messages[answer.tail_rows] = len(tail.keys)
            if states and answer.rows_known == answer.tail_rows == states[0].rows:
                return states[0]
            state = IndexState(
                of_epoch,
                answer.tail_rows,
                tail,
                length_rows_together(answer.length_pages, answer.length_sizes, answer.lengths),
                _near(answer.tail().keys, np.array(answer.near_pages, dtype=np.int64)),
            )
            others = [each for each in states if each.rows != state.rows]
            self._states = (state, *others[: _STATES_KEPT - 1])
        return state


def nothing_known(terms: Sequence[str]) -> Mapping[str, Any]:
    """Return the same of an empty cache."""
    return {"missing": terms, "generation": -1, "epoch": -1, "rows": 0}


def _growth(state: IndexState, since: int) -> Growth | None:
    """Return what was added to an index since a revision; None if that is not known."""
    of_epoch = state.of_epoch
    messages = of_epoch.messages.get(since - of_epoch.name.revision)
    if messages is None:
        return None
    added = state.tail.keys[messages:]
    conversations = {*(added >> SEQUENCE_BITS).tolist()}
    if len(conversations) > APPENDS_NOTED:
        return None
    return Growth(conversations, state.measured, state.lengths)


def _near(added: Keys, pages: Keys) -> Keys:
    """Return the messages in some pages of lengths that may share a window with one of those added."""
    if not len(pages):
        return added[:0]
    last = added[-_NEAR_MAX:, np.newaxis]
    keys = last + np.arange(1 - WINDOW_MESSAGES, WINDOW_MESSAGES)
    is_same = (keys >> SEQUENCE_BITS == last >> SEQUENCE_BITS) & (keys & SEQUENCE_MASK > 0)
    found = distinct(keys[is_same])
    return found[np.isin(found >> PAGE_BITS, pages)]


def joined_lists(lists: Sequence[PostingList]) -> PostingList:
    """Return the postings of several lists of one term."""
    some = [each for each in lists if len(each.keys)]
    if len(some) == 1:
        return some[0]
    if not some:
        return _NOTHING
    return PostingList(
        np.concatenate([each.keys for each in some]),
        np.concatenate([each.counts for each in some]),
    )


_NOTHING = PostingList(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def _parted(sizes: bytes | None, contents: bytes | None) -> Iterator[bytes]:
    """Yield the contents of rows that were sent as one value."""
    at = 0
    for size in np.frombuffer(sizes or b"", dtype=">i4").tolist():
        yield (contents or b"")[at : at + size]
        at += size

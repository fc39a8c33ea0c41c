"""Caches of posting lists, and of the lengths, times and kinds of messages and windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engram.limits import POSTINGS_KEPT, ROW_FACTS_KEPT, WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import KIND_BITS, KINDS, SEQUENCE_BITS, SEQUENCE_MASK
from engram.storage.postings.index import Postings, WordIndex, WordLengths, WordStatistics
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]
    ReadLengths = Callable[[Sequence[int]], Iterable[WordLengths]]

_SQL = load_queries("postings/postings.sql")
_MEMORY = KINDS.index("memory")
_NO_KEY = 2**63 - 1
_NOT_THERE = -2
_RECENT_SHARE = 64
_RECENT_MIN = 64
"""New entries are sorted in when they are more than one in `_RECENT_SHARE`, and than `_RECENT_MIN`."""
_READ_TOGETHER = 2_000
"""Messages whose times and kinds are read before it is known which of them are the best."""

Numbers = tuple[int, ...]


class _PostingList(NamedTuple):
    """The posting list of one term."""

    keys: Keys
    counts: Keys


class PostingCache:
    """Cache of posting lists, dropped when the word index changes: queries often share words.

    An entry is valid for one revision of the index. Thread-safe.
    """

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

    def expect(
        self,
        connection: Connection,
        index: WordIndex,
        terms: Sequence[str],
        *,
        organization_id: int,
    ) -> None:
        """Prepare for the posting lists of distinct terms, at a revision that is not known yet."""
        latest = self._latest
        found = latest.look_up(terms)
        index.expect(
            connection,
            terms,
            revision=latest.revision,
            missing=[term for term in terms if term not in found],
            organization_id=organization_id,
        )


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


class NumberTable:
    """Rows of numbers by key, in sorted arrays; thread-safe."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._changing = Lock()
        self._sorted: tuple[Keys, Keys] | None = None
        """Keys in ascending order, and a row of numbers for each."""
        self._recent: dict[int, Numbers] = {}

    def look_up(self, keys: Keys) -> Keys:
        """Return a row for each key, of -1 where it is not cached."""
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        with self._changing:
            table, recent = self._sorted, self._recent
        if table is None:
            found = np.full((len(keys), self.width), -1, dtype=np.int64)
        else:
            places = table[0].searchsorted(keys)
            # A key that is missing is mapped to the last row, which is all -1.
            places[table[0].take(places) != keys] = len(table[0]) - 1
            found = table[1].take(places, axis=0)
        if recent:
            missing = (found[:, 0] == -1).nonzero()[0]
            if len(missing):
                nothing: Numbers = (-1,) * self.width
                found[missing] = [recent.get(key, nothing) for key in keys[missing].tolist()]
        return found

    def add(self, new: dict[int, Numbers]) -> None:
        """Add rows that will not change."""
        if not new:
            return
        with self._changing:
            self._recent = {**self._recent, **new}
            count = 0 if self._sorted is None else len(self._sorted[0])
            if len(self._recent) > max(count // _RECENT_SHARE, _RECENT_MIN):
                self._sort_in()

    def _sort_in(self) -> None:
        import numpy as np  # noqa: PLC0415 as above

        keys = np.fromiter((*self._recent, _NO_KEY), dtype=np.int64)
        rows = [*self._recent.values(), (-1,) * self.width]
        numbers = np.array(rows, dtype=np.int64).reshape(-1, self.width)
        if self._sorted is not None and len(self._sorted[0]) + len(keys) <= ROW_FACTS_KEPT:
            keys = np.concatenate((self._sorted[0][:-1], keys))
            numbers = np.concatenate((self._sorted[1][:-1], numbers))
        order = np.argsort(keys, kind="stable")
        self._sorted = keys[order], numbers[order]
        self._recent = {}


class RowCache:
    """Cache of the numbers that scoring needs of messages and windows.

    A message never changes, and neither does a window once it is complete: their entries stay. An
    entry may outlive its message, but no index proposes that any more. That there is no such message,
    and the length of a window that may still grow, is valid for one revision of the word index.
    """

    def __init__(self) -> None:
        self._permanent = _RowTables()
        self._of_revision = (-1, _RowTables())

    def at(self, revision: int, read: ReadLengths) -> RowsAtRevision:
        """Return the cache at a revision of the word index; `read` reads lengths from the index."""
        cached, of_revision = self._of_revision
        if cached != revision:
            of_revision = _RowTables()
            self._of_revision = revision, of_revision
        return RowsAtRevision(self._permanent, of_revision, read)


class _RowTables:
    """The tables of messages and windows."""

    def __init__(self) -> None:
        self.lengths = NumberTable(2)
        self.windows = NumberTable(1)
        self.messages = NumberTable(3)


class RowsAtRevision:
    """The numbers of rows in one snapshot, read where they are not cached."""

    def __init__(self, permanent: _RowTables, of_revision: _RowTables, read: ReadLengths) -> None:
        self._permanent = permanent
        self._of_revision = of_revision
        self._read = read

    def read_together(
        self,
        connection: Connection,
        found: Keys,
        windows: Keys,
        *,
        also: Keys,
        organization_id: int,
    ) -> None:
        """Read what scoring needs of messages, of windows and of the messages of `also`.

        All of it is asked for at once, where reading one after the other would wait three times.
        """
        import numpy as np  # noqa: PLC0415 as above

        from engram.vectors.arrays import distinct  # noqa: PLC0415 as above

        around = distinct(np.concatenate((found, _members(windows).reshape(-1))))
        unmeasured = _missing(self._permanent.lengths, self._of_revision.lengths, around)
        lengths = self._measured(unmeasured) if unmeasured else ()
        wanted = distinct(np.concatenate((around, also)))
        unread = _missing(self._permanent.messages, self._of_revision.messages, wanted)
        if len(unread) > _READ_TOGETHER:
            unread = []
        facts = self._facts(connection, unread, organization_id=organization_id) if unread else ()
        _keep(self._permanent.lengths, self._of_revision.lengths, unmeasured, lengths)
        _keep(self._permanent.messages, self._of_revision.messages, unread, facts)

    def message_lengths(self, keys: Keys) -> Keys:
        """Return the number of indexed words of each message; below 0 where there is none."""
        return self._word_lengths(keys)[:, 1]

    def window_lengths(self, keys: Keys) -> Keys:
        """Return the number of indexed words of each window; below 0 where there is none."""
        found = self._permanent.windows.look_up(keys)[:, 0]
        missing = (found < 0).nonzero()[0]
        if len(missing):
            found[missing] = self._open_windows(keys[missing])
        return found

    def messages(self, connection: Connection, keys: Keys, *, organization_id: int) -> Keys:
        """Return the characters and time of each message, and whether it is a document.

        All are below 0 where there is none.
        """

        return _completed(
            self._permanent.messages,
            self._of_revision.messages,
            keys,
            partial(self._facts, connection, organization_id=organization_id),
        )

    def _facts(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterable[tuple[int, ...]]:
        values = {"keys": str(keys), "organization_id": organization_id}
        return connection.execute(_SQL["message_numbers"], values)

    def _word_lengths(self, keys: Keys) -> Keys:
        """Return the number of words of each message without stop words, and with them."""
        return _completed(self._permanent.lengths, self._of_revision.lengths, keys, self._measured)

    def _measured(self, keys: Sequence[int]) -> Iterable[tuple[int, ...]]:
        return ((key, telling, telling + stops) for key, telling, stops in self._read(keys))

    def _open_windows(self, windows: Keys) -> Keys:
        """Return the lengths of windows that may still grow."""
        found = self._of_revision.windows.look_up(windows)[:, 0]
        missing = (found == -1).nonzero()[0]
        if len(missing):
            found[missing] = self._add_up(windows[missing])
        return found

    def _add_up(self, windows: Keys) -> Keys:
        """Return the lengths of windows, added up from those of their messages, and cache them."""
        import numpy as np  # noqa: PLC0415 as above

        numbers = windows & SEQUENCE_MASK
        members = _members(windows)
        words = self._word_lengths(members.reshape(-1))[:, 0].reshape(members.shape)
        is_there = words >= 0
        # A window begins when one message is past the end of the window before it.
        has_begun = is_there[:, WINDOW_MESSAGES - WINDOW_STRIDE] | (numbers == 0)
        sums = np.where(has_begun, np.where(is_there, words, 0).sum(axis=1), _NOT_THERE)
        # Complete, or of a memory, which is one message.
        is_final = is_there.all(axis=1) | (windows >> SEQUENCE_BITS + KIND_BITS == _MEMORY)
        for tables, which in ((self._permanent, is_final), (self._of_revision, ~is_final)):
            pairs = zip(windows[which].tolist(), sums[which].tolist(), strict=True)
            tables.windows.add({key: (length,) for key, length in pairs})
        return sums


def _members(windows: Keys) -> Keys:
    """Return a row for each window, with the keys of the messages that it may hold."""
    import numpy as np  # noqa: PLC0415 as above

    conversations, numbers = windows & ~SEQUENCE_MASK, windows & SEQUENCE_MASK
    firsts = conversations + numbers * WINDOW_STRIDE + 1
    return firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)


def _completed(
    permanent: NumberTable,
    of_revision: NumberTable,
    keys: Keys,
    read: Callable[[Sequence[int]], Iterable[tuple[int, ...]]],
) -> Keys:
    """Return the numbers of each key, from the caches or else read."""
    found = permanent.look_up(keys)
    missing = (found[:, 0] < 0).nonzero()[0]
    if len(missing):
        found[missing] = of_revision.look_up(keys[missing])
        missing = missing[found[missing, 0] == -1]
    if len(missing):
        wanted = keys[missing].tolist()
        now = _keep(permanent, of_revision, wanted, read(wanted))
        found[missing] = [now[key] for key in wanted]
    return found


def _missing(permanent: NumberTable, of_revision: NumberTable, keys: Keys) -> list[int]:
    """Return those of the keys that are in neither cache."""
    unknown = keys[permanent.look_up(keys)[:, 0] < 0]
    return unknown[of_revision.look_up(unknown)[:, 0] == -1].tolist()


def _keep(
    permanent: NumberTable,
    of_revision: NumberTable,
    wanted: Sequence[int],
    rows: Iterable[tuple[int, ...]],
) -> dict[int, Numbers]:
    """Cache what was read of the keys that were wanted, and which of them do not exist; return it."""
    now: dict[int, Numbers] = {key: tuple(numbers) for key, *numbers in rows}
    permanent.add(now)
    nothing: Numbers = (_NOT_THERE,) * permanent.width
    missing: dict[int, Numbers] = dict.fromkeys(wanted, nothing)
    for key in now:
        missing.pop(key, None)
    of_revision.add(missing)
    return missing | now

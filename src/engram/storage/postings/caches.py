"""Caches of posting lists, and of the lengths, times and kinds of messages and windows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from engram.limits import POSTINGS_KEPT, WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import KIND_BITS, KINDS, SEQUENCE_BITS, SEQUENCE_MASK
from engram.storage.postings.index import Growth, PostingList, Postings, WordIndex, WordStatistics
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engram.storage.postings.number_tables import NumberTable, SlotTable, SortedRows

    Keys = NDArray[np.int64]
    ReadLengths = Callable[[Keys], Callable[[], Keys]]
    """Asks for the lengths of messages; what it returns returns rows of key, telling words and all words."""

Grown: TypeAlias = Callable[[int, int], Growth | None]
"""Returns what was added to the index between two revisions; None if that is not known."""

_SQL = load_queries("postings/postings.sql")
_MEMORY = KINDS.index("memory")
_NOT_THERE = -2
_FACTS = 3
"""Numbers of a message: characters, time, and whether it is a document."""
REVISIONS_OF_LENGTHS = 1 << 32
"""So many revisions at once mean that messages have other words than before, and so other lengths."""
APPENDS_NOTED = 256
"""Appends after which what is known of missing messages and open windows is kept."""
_READ_TOGETHER = 2_000
"""Messages whose times and kinds are read before it is known which of them are the best."""


def _nothing_known(since: int, revision: int) -> None:
    """Answer as a `Grown` that knows of no append."""
    del since, revision


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
        self._last: tuple[Sequence[str], Postings] | None = None
        """Lists may be too long to be cached, and one search may ask twice."""

    def statistics(self) -> WordStatistics:
        """Return how many messages there are, and how many words they have."""
        if self._entries.statistics is None:
            self._entries.statistics = self._index.statistics(
                self._connection, organization_id=self._organization_id
            )
        return self._entries.statistics

    def postings(self, terms: Sequence[str]) -> Postings:
        """Return the posting lists of distinct terms."""
        if self._last is None or self._last[0] != terms:
            self._last = terms, self._read(terms)
        return self._last[1]

    def _read(self, terms: Sequence[str]) -> Postings:
        found = self._entries.look_up(terms)
        missing = [term for term in terms if term not in found]
        if missing:
            read = self._index.postings(
                self._connection, missing, organization_id=self._organization_id
            )
            new = read.by_term(missing)
            self._entries.add(new)
            found |= new
        return Postings.joined([found[term] for term in terms])


class ListCache:
    """Posting lists of terms, bounded. Thread-safe."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._lists: dict[str, PostingList] = {}
        self._count = 0

    def look_up(self, terms: Iterable[str]) -> dict[str, PostingList]:
        """Return the posting lists of those terms that are cached."""
        lists = self._lists
        return {term: lists[term] for term in terms if term in lists}

    def add(self, new: Mapping[str, PostingList]) -> None:
        """Add posting lists; a cache that would outgrow its bound is emptied first."""
        with self._changing:
            for term, each in new.items():
                if len(each.keys) > POSTINGS_KEPT:
                    continue
                if self._count + len(each.keys) > POSTINGS_KEPT:
                    self._lists, self._count = {}, 0
                # Copies: a part of an array keeps the whole of it.
                self._lists[term] = PostingList(each.keys.copy(), each.counts.copy())
                self._count += len(each.keys)


class _Entries(ListCache):
    """The entries of one revision."""

    def __init__(self, revision: int) -> None:
        super().__init__()
        self.revision = revision
        self.statistics: WordStatistics | None = None


class RowCache:
    """Cache of the numbers that scoring needs of messages and windows.

    Few messages ever change, and complete windows as rarely: their entries stay until the revision says
    that lengths have changed. An entry may outlive its message, but no index proposes that any more. That
    there is no such message, and the length of a window that may still grow, is valid for one revision of
    the word index, and after appends that are known of for all conversations but theirs.
    """

    def __init__(self) -> None:
        self._latest: _CachedRows | None = None
        self._changing = Lock()
        self._appends = OrderedDict[int, Collection[int]]()
        """The conversations of appends, by the revision after each."""

    def note_append(self, revision: int, conversations: Collection[int]) -> None:
        """Have a committed append, which led to a revision, concern these conversations alone."""
        with self._changing:
            self._appends[revision] = conversations
            if len(self._appends) > APPENDS_NOTED:
                self._appends.popitem(last=False)

    def at(self, revision: int, read: ReadLengths, grown: Grown = _nothing_known) -> RowsAtRevision:
        """Return the cache at a revision of the word index; `read` reads lengths from the index.

        `grown` is asked when the first number is, once the posting lists have been read.
        """
        return RowsAtRevision(partial(self._tables, revision, grown), read)

    def _tables(self, revision: int, grown: Grown) -> _CachedRows:
        """Return what is cached at a revision."""
        latest = self._latest
        if latest is None:
            latest = self._latest = _CachedRows(revision, _PermanentTables(), _RevisionTables())
        elif latest.revision != revision:
            changed, growth = self._noted(latest.revision, revision), None
            if changed is None:
                growth = grown(latest.revision, revision)
                changed = None if growth is None else growth.conversations
            latest = latest.at(revision, changed)
            if growth is not None:
                _keep(
                    latest.permanent.lengths,
                    latest.of_revision.lengths,
                    growth.keys,
                    growth.lengths,
                )
            self._latest = latest
        return latest

    def _noted(self, since: int, revision: int) -> set[int] | None:
        """Return the conversations that have grown between two revisions; None if they were not noted."""
        if not 0 < revision - since <= APPENDS_NOTED:
            return None
        with self._changing:
            noted = [self._appends.get(each) for each in range(since + 1, revision + 1)]
        changed = set[int]()
        for conversations in noted:
            if conversations is None:
                return None
            changed.update(conversations)
        return changed


class _CachedRows(NamedTuple):
    """What is cached at a revision."""

    revision: int
    permanent: _PermanentTables
    of_revision: _RevisionTables

    def at(self, revision: int, changed: Collection[int] | None) -> _CachedRows:
        """Return what is still right at another revision; None for `changed` may be any conversation."""
        if revision // REVISIONS_OF_LENGTHS != self.revision // REVISIONS_OF_LENGTHS:
            return _CachedRows(revision, _PermanentTables(), _RevisionTables())
        of_revision = _RevisionTables() if changed is None else self.of_revision.without(changed)
        return _CachedRows(revision, self.permanent, of_revision)


class _PermanentTables:
    """The numbers of messages and of complete windows."""

    def __init__(self) -> None:
        from engram.storage.postings.number_tables import (  # noqa: PLC0415 as above
            NumberTable,
            SlotTable,
        )

        self.lengths = SlotTable(2)
        self.windows = SlotTable(1)
        self.messages = NumberTable(_FACTS)


class _RevisionTables:
    """What is known of messages that do not exist and of windows that may grow, at one revision."""

    def __init__(self) -> None:
        from engram.storage.postings.number_tables import NumberTable  # noqa: PLC0415 as above

        self.lengths = NumberTable(2)
        self.windows = NumberTable(1)
        self.messages = NumberTable(_FACTS)

    def without(self, conversations: Collection[int]) -> _RevisionTables:
        """Return what is known of other conversations."""
        others = _RevisionTables()
        others.lengths = self.lengths.without(conversations)
        others.windows = self.windows.without(conversations)
        others.messages = self.messages.without(conversations)
        return others


class RowsAtRevision:
    """The numbers of rows in one snapshot, read where they are not cached."""

    def __init__(self, tables: Callable[[], _CachedRows], read: ReadLengths) -> None:
        self._find_tables = tables
        self._read = read

    @cached_property
    def _tables(self) -> _CachedRows:
        return self._find_tables()

    @property
    def _permanent(self) -> _PermanentTables:
        return self._tables.permanent

    @property
    def _of_revision(self) -> _RevisionTables:
        return self._tables.of_revision

    def read_together(
        self,
        connection: Connection,
        found: Keys,
        windows: Keys,
        *,
        also: Keys,
        likely: Callable[[int], Keys],
        organization_id: int,
    ) -> None:
        """Read the lengths that scoring needs; if any are missing, then facts as well.

        They are those of all messages that may be among the best, or of those that `likely` returns if these
        are too many; it is given how many texts have a length that is not known yet. To ask for facts once the
        best are known would be another wait.
        """
        import numpy as np  # noqa: PLC0415 as above

        from engram.vectors.arrays import distinct  # noqa: PLC0415 as above

        unsummed = _missing(self._permanent.windows, self._of_revision.windows, windows)
        needed = distinct(np.concatenate((found, _members(unsummed).reshape(-1))))
        unmeasured = _missing(self._permanent.lengths, self._of_revision.lengths, needed)
        if not len(unmeasured):
            return
        lengths = self._read(unmeasured)
        is_found = found.take(found.searchsorted(unmeasured), mode="clip") == unmeasured
        unknown = max(len(unsummed), int(is_found.sum()))
        unread = self._unread(found, windows, also, partial(likely, unknown))
        facts = self._facts(connection, unread, organization_id) if len(unread) else None
        _keep(self._permanent.lengths, self._of_revision.lengths, unmeasured, lengths())
        if facts is not None:
            _keep(self._permanent.messages, self._of_revision.messages, unread, facts())

    def _unread(self, found: Keys, windows: Keys, also: Keys, likely: Callable[[], Keys]) -> Keys:
        """Return the messages whose facts are read before it is known which are the best."""
        import numpy as np  # noqa: PLC0415 as above

        from engram.vectors.arrays import distinct  # noqa: PLC0415 as above

        tables = self._permanent.messages, self._of_revision.messages
        if len(found) <= _READ_TOGETHER:
            wanted = distinct(np.concatenate((found, _members(windows).reshape(-1), also)))
            unread = _missing(*tables, wanted)
            if len(unread) <= _READ_TOGETHER:
                return unread
        return _missing(*tables, likely())

    def guessed(self, length: int | None) -> RowsAtRevision:
        """Return the same with a guess for each length that is not cached; None for the mean of the others."""
        return _GuessedRows(lambda: self._tables, self._read, length)

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

        def read(wanted: Keys) -> Keys:
            return self._facts(connection, wanted, organization_id)()

        return _completed(self._permanent.messages, self._of_revision.messages, keys, read)

    def _facts(
        self, connection: Connection, keys: Keys, organization_id: int
    ) -> Callable[[], Keys]:
        values = {"keys": str(keys.tolist()), "organization_id": organization_id}
        cursor = connection.execute(_SQL["message_numbers"], values)
        return lambda: _numbers(cursor.fetchone()[0]).reshape(-1, 1 + _FACTS)

    def _word_lengths(self, keys: Keys) -> Keys:
        """Return the number of words of each message without stop words, and with them."""
        return _completed(
            self._permanent.lengths,
            self._of_revision.lengths,
            keys,
            lambda wanted: self._read(wanted)(),
        )

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
            tables.windows.add(windows[which], sums[which][:, np.newaxis])
        return sums


class _GuessedRows(RowsAtRevision):
    """What is cached of lengths, and a guess of the others."""

    def __init__(
        self, tables: Callable[[], _CachedRows], read: ReadLengths, length: int | None
    ) -> None:
        super().__init__(tables, read)
        self._length = length

    def message_lengths(self, keys: Keys) -> Keys:
        return self._guessed(self._permanent.lengths.look_up(keys)[:, 1])

    def window_lengths(self, keys: Keys) -> Keys:
        found = self._permanent.windows.look_up(keys)[:, 0]
        missing = (found < 0).nonzero()[0]
        found[missing] = self._of_revision.windows.look_up(keys[missing])[:, 0]
        return self._guessed(found)

    def _guessed(self, lengths: Keys) -> Keys:
        known = lengths[lengths >= 0]
        mean = int(known.mean()) if len(known) else 1
        lengths[lengths == -1] = mean if self._length is None else self._length
        return lengths


def _members(windows: Keys) -> Keys:
    """Return a row for each window, with the keys of the messages that it may hold."""
    import numpy as np  # noqa: PLC0415 as above

    conversations, numbers = windows & ~SEQUENCE_MASK, windows & SEQUENCE_MASK
    firsts = conversations + numbers * WINDOW_STRIDE + 1
    return firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)


def _completed(
    permanent: NumberTable | SlotTable,
    of_revision: NumberTable,
    keys: Keys,
    read: Callable[[Keys], Keys],
) -> Keys:
    """Return the numbers of each key, from the caches or else read."""
    found = permanent.look_up(keys)
    missing = (found[:, 0] < 0).nonzero()[0]
    if len(missing):
        found[missing] = of_revision.look_up(keys.take(missing))
        missing = missing[found[missing, 0] == -1]
    if len(missing):
        wanted = keys.take(missing)
        now = _keep(permanent, of_revision, wanted, read(wanted)).look_up(wanted)
        now[now[:, 0] < 0] = _NOT_THERE
        found[missing] = now
    return found


def _missing(permanent: NumberTable | SlotTable, of_revision: NumberTable, keys: Keys) -> Keys:
    """Return those of the keys that are in neither cache."""
    unknown = keys[permanent.look_up(keys)[:, 0] < 0]
    return unknown[of_revision.look_up(unknown)[:, 0] == -1]


def _keep(
    permanent: NumberTable | SlotTable, of_revision: NumberTable, wanted: Keys, rows: Keys
) -> SortedRows:
    """Cache rows of key and numbers, and which of those wanted do not exist; return the rows."""
    import numpy as np  # noqa: PLC0415 as above

    from engram.storage.postings.number_tables import SortedRows  # noqa: PLC0415 as above

    exists = rows[:, 1] >= 0
    if not exists.all():
        ended, rows = rows[~exists, 0], rows[exists]
        wanted = np.concatenate((wanted, ended[of_revision.look_up(ended)[:, 0] == -1]))
    read = SortedRows.merged(None, rows[:, 0], rows[:, 1:])
    is_new = permanent.look_up(read.keys)[:, 0] < 0
    is_new[-1] = False
    permanent.add(read.keys[is_new], read.numbers[is_new])
    absent = wanted[read.look_up(wanted)[:, 0] < 0]
    of_revision.add(absent, np.full((len(absent), permanent.width), _NOT_THERE, dtype=np.int64))
    return read


def _numbers(packed: str | bytes | None) -> Keys:
    """Return the numbers in the text of a file, or in the bytes of a server."""
    import numpy as np  # noqa: PLC0415 as above

    if isinstance(packed, bytes):
        return np.frombuffer(packed, dtype=">i8").astype(np.int64)
    return np.fromstring(packed or "", dtype=np.int64, sep=",")

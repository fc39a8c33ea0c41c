"""Packed posting lists of frequent words, beside the FTS5 table that is the index.

A list is a copy of what FTS5 says of a word, made in one transaction; what is added later is in the log
(`word_log.py`) until `fold` moves it into the lists. So the postings of a word are those of its list and of the log,
no message is in both, and a word without a list is found by FTS5. A message that is removed from the index is
removed from lists and log in the same transaction.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram import limits
from engram.errors import StoreCorruptError
from engram.storage.postings.blocks import words_in
from engram.storage.postings.index import WORDS_LOST, MessageWords, PostingList
from engram.storage.postings.owners import MESSAGES, Owners
from engram.storage.postings.packed_list import pack_list, unpack_list
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.vectors.arrays import distinct, run_starts

Keys = NDArray[np.int64]

logger = logging.getLogger(__name__)

_SQL = load_queries("sqlite/packed_words.sql")

_ZERO = np.zeros(1, dtype=np.int64)
_LEFT = -1
"""The row of the log that a merge leaves; appends have others."""
_ROWS_READ = 16
"""Rows of the log that are read again by each search, before they are cached."""
_BLOCK_BITS = 20
"""`packed_words.sql` has the same."""


class _Entries(NamedTuple):
    """Messages, and the numbers of their words."""

    owners: Owners
    words: NDArray[np.uint16]

    def look_up(self, number: int) -> tuple[Keys, Keys]:
        """Return keys and counts of a word."""
        return self.owners.postings((self.words == number).nonzero()[0])


class _SortedEntries(NamedTuple):
    """The same in the order of the words: sorted once, many words are looked up quickly."""

    owners: Owners
    words: NDArray[np.uint16]
    places: NDArray[np.int32]
    """Of the message of each entry among all."""

    @classmethod
    def of(cls, entries: _Entries) -> _SortedEntries:
        owners, words = entries
        order = words.argsort(kind="stable")
        places = np.arange(len(owners.keys), dtype=np.int32)
        sizes = np.diff(owners.ends, prepend=0)
        return cls(owners, words.take(order), places.repeat(sizes).take(order))

    def look_up(self, number: int) -> tuple[Keys, Keys]:
        """Return keys and counts of a word."""
        word = self.words.dtype.type(number)
        start, end = self.words.searchsorted(word), self.words.searchsorted(word, side="right")
        return self.owners.counted(self.places[start:end])


class _Log(NamedTuple):
    """Rows of the log."""

    messages: bytes
    words: bytes

    @classmethod
    def of(cls, rows: Sequence[tuple[int, bytes, bytes]]) -> _Log:
        """Return several rows as one."""
        return cls(b"".join(row[1] for row in rows), b"".join(row[2] for row in rows))

    @classmethod
    def read(cls, connection: Connection) -> _Log:
        """Return the whole log."""
        return cls.of(_log_rows(connection, _LEFT))

    def parts(self) -> _Entries:
        """Return the messages, and the numbers of their words.

        Raises:
            StoreCorruptError: it is damaged.
        """
        owners = Owners.of(self.messages)
        if 2 * owners.entries != len(self.words):
            raise StoreCorruptError(WORDS_LOST)
        return _Entries(owners, np.frombuffer(self.words, dtype="<u2"))

    def without(self, removed: Keys) -> _Log:
        """Return the rows without some messages."""
        owners, _ = self.parts()
        is_left = ~np.isin(owners.keys, removed)
        return self.only(is_left.repeat(np.diff(owners.ends, prepend=0)))

    def only(self, is_left: NDArray[np.bool_]) -> _Log:
        """Return the words selected by a mask, and the messages that have any of them."""
        owners, words = self.parts()
        messages = np.frombuffer(self.messages, dtype=MESSAGES).copy()
        ends = np.concatenate((_ZERO, is_left.cumsum())).take(owners.ends)
        messages["entries"] = np.diff(ends, prepend=0)
        left = messages[messages["entries"] > 0]
        return _Log(left.tobytes(), words[is_left].tobytes())


_NO_ENTRIES = _SortedEntries.of(_Log(b"", b"").parts())


class _Cached(NamedTuple):
    """The first rows of the log, at an epoch."""

    epoch: int
    rows: Sequence[tuple[int, bytes, bytes]]
    entries: _SortedEntries

    @property
    def next_number(self) -> int:
        return self.rows[-1][0] + 1 if self.rows else _LEFT


class LogCache:
    """Cache of the first rows of the log, which change only with the epoch; thread-safe.

    Searches read the whole log, and an append would have them read all its pages again.
    """

    def __init__(self) -> None:
        self._cached = _Cached(0, (), _NO_ENTRIES)

    def read(self, connection: Connection) -> tuple[_SortedEntries, _Entries]:
        """Return the log in two parts.

        Raises:
            StoreCorruptError: it is damaged.
        """
        epoch, logged = connection.execute(_SQL["get_epoch"]).fetchone() or (0, 0)
        cached = self._cached
        # In a snapshot from before they were complete, the same rows are shorter or missing.
        is_complete = logged // limits.PACKED_LOG_ROW >= cached.next_number
        if cached.epoch != epoch or not is_complete:
            cached = _Cached(epoch, (), _NO_ENTRIES)
        rows = _log_rows(connection, cached.next_number)
        if len(rows) > _ROWS_READ:
            # The last row may still grow.
            known = [*cached.rows, *rows[:-1]]
            entries = _SortedEntries.of(_Log.of(known).parts())
            cached = self._cached = _Cached(epoch, known, entries)
            rows = rows[-1:]
        return cached.entries, _Log.of(rows).parts()


def _log_rows(connection: Connection, first: int) -> list[tuple[int, bytes, bytes]]:
    return connection.execute(_SQL["read_log"], (first,)).fetchall()


def read_lists(
    connection: Connection, blocks: Sequence[tuple[str, int, bytes]], *, cache: LogCache
) -> dict[str, PostingList]:
    """Return the posting lists of terms, given term, number and block of each of their blocks.

    Raises:
        StoreCorruptError: a list or the log is damaged.
    """
    found: dict[str, list[tuple[Keys, Keys]]] = defaultdict(list)
    for term, _, packed in blocks:
        found[term].append(unpack_list(packed))
    log = cache.read(connection)
    for term, number in {term: number for term, number, _ in blocks}.items():
        found[term] += [part.look_up(number) for part in log]
    return {term: _concatenated(parts) for term, parts in found.items()}


def remove_messages(connection: Connection, rows: Sequence[MessageWords]) -> None:
    """Remove messages from the log and from the lists of their words."""
    keys = np.array([row.key for row in rows], dtype=np.int64)
    terms = {term for row in rows for part in words_in(row) for term in part}
    try:
        _remove_from_log(connection, keys)
        _remove_from_lists(connection, keys, sorted(terms))
    except StoreCorruptError:
        _drop_damaged(connection)


def fold(connection: Connection, *, after: int) -> bool:
    """Move some words of the log into their lists, those with numbers past `after`; return True if there are more.

    What is added between two such steps is left in the log if its word had its turn.
    """
    try:
        return _fold(connection, _Log.read(connection), after=after)
    except StoreCorruptError:
        _drop_damaged(connection)
        return False


def _fold(connection: Connection, log: _Log, *, after: int) -> bool:
    owners, words = log.parts()
    present = np.bincount(words[words > after]).nonzero()[0]
    some = present[: limits.PACKED_STEP_WORDS]
    if len(some):
        is_one = (words > after) & (words <= some[-1])
        places: Keys = is_one.nonzero()[0]
        numbers, keys, counts = owners.grouped(words[is_one].astype(np.int64), places)
        starts = run_starts(numbers)
        for start, end in pairwise((*starts.tolist(), len(numbers))):
            new = PostingList(keys[start:end], counts[start:end])
            _extend(connection, int(numbers[start]), new)
        log = log.only(~is_one)
    connection.execute(_SQL["renew_epoch"])
    connection.execute(_SQL["empty_log"])
    if log.words:
        connection.execute(_SQL["log"], (_LEFT, *log))
    if len(some) < len(present):
        connection.execute(_SQL["note_folded"], (int(some[-1]),))
        return True
    connection.execute(_SQL["forget_logged"])
    return False


def add_list(connection: Connection, term: str, postings: PostingList) -> None:
    """Pack the posting list of a word that has none, unless the file has as many lists as it can."""
    row = connection.execute(_SQL["take_number"], (limits.PACKED_WORDS_MAX,)).fetchone()
    if row is not None:
        connection.execute(_SQL["add_word"], (term, row[0]))
        _put_from(connection, row[0] << _BLOCK_BITS, postings)


def drop_lists(connection: Connection) -> None:
    """Drop all lists and the log: FTS5 finds every word."""
    for name in ("drop_words", "drop_blocks", "empty_log", "drop_state"):
        connection.execute(_SQL[name])


def _drop_damaged(connection: Connection) -> None:
    logger.warning("packed posting lists are damaged and were dropped; they will be made anew")
    drop_lists(connection)


def _remove_from_log(connection: Connection, keys: Keys) -> None:
    numbers = _rows_with(connection, keys)
    for number in numbers:
        (row,) = connection.execute(_SQL["log_row"], (number,)).fetchall()
        left = _Log(*row).without(keys)
        connection.execute(_SQL["put_log"], {"number": number, **left._asdict()})
    if numbers:
        connection.execute(_SQL["renew_epoch"])


def _rows_with(connection: Connection, keys: Keys) -> list[int]:
    """Return the numbers of the rows of the log that have any of the messages."""
    rows: list[tuple[int, bytes]] = connection.execute(_SQL["log_messages"]).fetchall()
    logged = Owners.of(b"".join(messages for _, messages in rows)).keys
    ends = np.cumsum([len(messages) // MESSAGES.itemsize for _, messages in rows], dtype=np.int64)
    found = ends.searchsorted(np.isin(logged, keys).nonzero()[0], side="right")
    return [rows[place][0] for place in distinct(found).tolist()]


def _remove_from_lists(connection: Connection, keys: Keys, terms: Sequence[str]) -> None:
    asked = {
        "terms": json.dumps(terms),
        "first_key": int(keys.min()),
        "last_key": int(keys.max()),
    }
    for key, packed in connection.execute(_SQL["blocks_with_keys"], asked).fetchall():
        old = unpack_list(packed)
        stays = ~np.isin(old.keys, keys)
        if stays.all():
            continue
        if stays.any():
            _put(connection, key, PostingList(old.keys[stays], old.counts[stays]))
        else:
            _delete_block(connection, key)


def _delete_block(connection: Connection, key: int) -> None:
    """Delete a block, and the word with its last one: no word is stored that no message has."""
    connection.execute(_SQL["delete_block"], (key,))
    word = {"number": key >> _BLOCK_BITS}
    if connection.execute(_SQL["has_blocks"], word).fetchone() is None:
        connection.execute(_SQL["delete_word"], word)


def _extend(connection: Connection, number: int, new: PostingList) -> None:
    """Add postings to a list, unless it was dropped: only its last block is written again."""
    last = connection.execute(_SQL["last_block"], {"number": number}).fetchone()
    if last is None:
        return
    key, postings, packed = last
    if postings < limits.PACKED_BLOCK_POSTINGS:
        _put_from(connection, key, _concatenated([unpack_list(packed), new]))
    else:
        _put_from(connection, key + 1, new)


def _put_from(connection: Connection, key: int, postings: PostingList) -> None:
    """Write postings as blocks, from that of a key on, in the order of the messages."""
    order = postings.keys.argsort(kind="stable")
    keys, counts = postings.keys.take(order), postings.counts.take(order)
    size = limits.PACKED_BLOCK_POSTINGS
    for place, start in enumerate(range(0, len(keys), size)):
        part = slice(start, start + size)
        _put(connection, key + place, PostingList(keys[part], counts[part]))


def _put(connection: Connection, key: int, postings: PostingList) -> None:
    values = {
        "key": key,
        "first_key": int(postings.keys[0]),
        "last_key": int(postings.keys[-1]),
        "postings": len(postings.keys),
        "packed": pack_list(postings),
    }
    connection.execute(_SQL["put_block"], values)


def _concatenated(parts: Sequence[tuple[Keys, Keys]]) -> PostingList:
    return PostingList(*(np.concatenate(column) for column in zip(*parts, strict=True)))

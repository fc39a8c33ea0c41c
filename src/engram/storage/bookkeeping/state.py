"""The organisation-wide state that writers need: analyser version, rebuild progress, and the next row numbers."""

from __future__ import annotations

from typing import NamedTuple

from engram.errors import StorageError, StoreCorruptError, StoreNewerError
from engram.model.access import Quota, Use
from engram.model.row_keys import KIND_BITS, KINDS, RecordKind, record_number
from engram.storage.postings.index import WORDS_LOST
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.text.analyse import ANALYSER_VERSION

_SQL = load_queries("bookkeeping/state.sql")


class State(NamedTuple):
    """The columns of `get_state`."""

    messages: int
    """As the quota counts them."""
    content_bytes: int
    used_bytes: int
    """As the quota counts them."""
    analyser_version: int
    dictionary_due_bytes: int
    rebuild_version: int | None
    rebuild_upto: int | None
    rebuild_until: int | None
    dictionary: int | None
    index_size: int | None
    """Words in the word index, in a file messages; None if its state is lost, without which nothing can be added."""
    tail_size: int | None
    """The same in its tail; in a file in the log of its packed lists, all messages if it has no such lists."""

    def is_in_next(self, conversation: int) -> bool:
        """Return True if the word index being built has this conversation already."""
        return self.rebuild_upto is not None and conversation <= self.rebuild_upto

    def check_quota(self, quota: Quota, *, messages: int, stored_bytes: int) -> None:
        """Raise `QuotaExceededError` early if an addition exceeds the quota, before it is written."""
        quota.check(Use(self.messages, self.used_bytes), added=Use(messages, stored_bytes))


def expect_state(tx: Transaction) -> None:
    """Prepare for `read_state`."""
    tx.ask_ahead(_SQL["get_state"])


def read_state(tx: Transaction) -> State:
    """Return the state, if the word index is of this program's analyser.

    Raises:
        StoreNewerError: a newer program has built the index.
        StorageError: an older one has; it has to be rebuilt.
    """
    row = tx.execute(_SQL["get_state"]).fetchone()
    if row is None:
        raise StoreCorruptError("the counters are missing: run `engram doctor --repair`")
    state = State._make(row)
    if state.index_size is None:
        raise StoreCorruptError(WORDS_LOST)
    # Another process may have trained it, or dropped all: texts to come are compressed with it.
    tx.tenant.codec.announce_dictionary(state.dictionary)
    if max(state.analyser_version, state.rebuild_version or 0) > ANALYSER_VERSION:
        raise StoreNewerError
    if state.analyser_version < ANALYSER_VERSION:
        raise StorageError("the word indexes are of an older version: run `engram reindex`")
    return state


_PLACES_SKIPPED = 1 << 20
"""More than can have been taken and left no trace since a damaged state fell behind."""


def take_numbers(tx: Transaction, kind: RecordKind, count: int) -> range:
    """Return `count` new numbers of a kind, at least one; none is ever given twice."""
    row = tx.execute(_SQL[f"take_{kind}"], count=count).fetchone()
    if row is None:
        raise StoreCorruptError("the state of upkeep is missing: run `engram doctor --repair`")
    last = record_number(kind, row[0])
    return range(last - count + 1, last + 1)


def find_numbers_behind(tx: Transaction) -> dict[RecordKind, int]:
    """Return the kinds whose next number is in use, and the highest number of each."""
    given = tx.execute(_SQL["given_numbers"]).fetchone()
    if given is None:
        return {}
    present = {kind: _places_used(tx, kind) for kind in KINDS}
    return {
        kind: present[kind]
        for kind, place in zip(KINDS, given, strict=True)
        if place < present[kind]
    }


def mend_numbers(tx: Transaction) -> None:
    """Skip well past the highest number of the kinds whose next number is in use."""
    behind = find_numbers_behind(tx)
    if not behind:
        return
    given = tx.execute(_SQL["given_numbers"]).fetchone()
    places = dict(zip(KINDS, given, strict=True))
    places |= {kind: place + _PLACES_SKIPPED for kind, place in behind.items()}
    tx.execute(_SQL["put_numbers"], **places)


def _places_used(tx: Transaction, kind: RecordKind) -> int:
    first = KINDS.index(kind) << KIND_BITS
    last = first + (1 << KIND_BITS) - 1
    row = tx.execute(_SQL["newest_number"], first=first, last=last).fetchone()
    return row[0] - first

"""What a transaction has to know of the whole organisation before it changes words."""

from __future__ import annotations

from typing import NamedTuple

from engram.errors import StorageError, StoreCorruptError, StoreNewerError
from engram.model.access import Quota, Use
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.text.analyse import ANALYSER_VERSION

_SQL = load_queries("bookkeeping/state.sql")


class State(NamedTuple):
    """The columns of `get_state`."""

    messages: int
    content_bytes: int
    used_bytes: int
    """As the quota counts them."""
    analyser_version: int
    dictionary_due_bytes: int
    rebuild_version: int | None
    rebuild_upto: int | None
    rebuild_until: int | None
    dictionary: int | None

    def is_in_next(self, conversation: int) -> bool:
        """Return True if the word indexes that are being built hold this conversation already."""
        return self.rebuild_upto is not None and conversation <= self.rebuild_upto

    def check_quota(self, quota: Quota, *, messages: int, stored_bytes: int) -> None:
        """Refuse early what does not fit the quota any more, before it is written.

        Raises:
            QuotaExceededError: so many messages or bytes more would be too many.
        """
        quota.check(Use(self.messages, self.used_bytes), added=Use(messages, stored_bytes))


def read_state(tx: Transaction) -> State:
    """Return the state, if this program's words are those of the word indexes.

    Raises:
        StoreNewerError: a newer program analyses words differently.
    """
    row = tx.execute(_SQL["get_state"]).fetchone()
    if row is None:
        raise StoreCorruptError("the counters are missing: run `engram doctor --repair`")
    state = State._make(row)
    if max(state.analyser_version, state.rebuild_version or 0) > ANALYSER_VERSION:
        raise StoreNewerError
    if state.analyser_version < ANALYSER_VERSION:
        raise StorageError("the word indexes are of an older version: run `engram reindex`")
    return state

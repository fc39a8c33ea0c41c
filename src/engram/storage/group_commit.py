"""Group commit: the writes of many callers in one transaction, answered once it is durable.

A commit costs far more than a small write, so all writes that were queued during one commit share
the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from engram.storage.bookkeeping.audit import Announce, Gathered, gathering
from engram.storage.rows.database import Connection
from engram.storage.threads import ThreadTicket, Ticket, deliver
from engram.yielding import without_pauses


@dataclass(frozen=True, slots=True)
class Write:
    """A write, and the ticket of its caller."""

    work: Callable[[Any], Any]
    ticket: Ticket[Any] | ThreadTicket[Any]
    announce: Announce | None = None
    """Called with the audit rows once they are durable."""
    audited: list[Gathered] = field(default_factory=list[Gathered])


class WriteSession(Protocol):
    """The connection of a writer, for one transaction after another."""

    def translated_failures(self) -> AbstractContextManager[None]:
        """Translate errors of the driver into those of `engram.errors`."""
        ...

    def begin(self, *, works: int) -> Connection:
        """Begin an exclusive transaction for so many writes."""
        ...

    def mark(self) -> None:
        """Set a savepoint before a write."""
        ...

    def flush(self) -> None:
        """Raise what the statements of a write have failed with, if that would be heard of too late."""
        ...

    def undo(self, error: Exception) -> None:
        """Roll back the write that raised `error`; raise if that ends the transaction."""
        ...

    def keep(self) -> None:
        """Release the savepoint."""
        ...

    def commit(self) -> None:
        """Commit; return when everything is durable."""
        ...

    def abandon(self) -> None:
        """Roll back, and drop a connection in an unknown state."""
        ...


def commit_together(writes: Sequence[Write], session: WriteSession) -> None:
    """Run the writes whose callers still wait, and settle their tickets."""
    awaited = [write for write in writes if not write.ticket.is_abandoned]
    if awaited:
        _commit(awaited, session)
    deliver([write.ticket for write in writes])
    for write in awaited:
        if write.announce is not None and write.audited:
            write.announce([record() for record in write.audited])


def _commit(writes: Sequence[Write], session: WriteSession) -> None:
    """Run the writes in one transaction; if it fails, all of them fail."""
    try:
        with session.translated_failures(), without_pauses():
            connection = session.begin(works=len(writes))
            for write in writes:
                _do(write, connection, session)
            session.commit()
    except Exception as exc:  # noqa: BLE001 - raised in the callers; the thread goes on
        for write in writes:
            write.ticket.fail(exc)
            write.audited.clear()
        session.abandon()


def _do(write: Write, connection: Connection, session: WriteSession) -> None:
    """Run one write; if it fails, only that one is rolled back."""
    session.mark()
    try:
        wanted = None if write.announce is None else write.audited
        with session.translated_failures(), gathering(wanted):
            write.ticket.succeed(write.work(connection))
            session.flush()
    except Exception as exc:  # noqa: BLE001 - raised in the caller
        write.audited.clear()
        session.undo(exc)
        write.ticket.fail(exc)
    session.keep()

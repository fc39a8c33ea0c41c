"""Do the work of many callers in one transaction, and answer nobody before it is durable.

A commit costs far more than a small write, so everything that queued up during one commit shares
the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from engram.model.access import AuditRecord
from engram.storage.bookkeeping.audited import Announce, gathering
from engram.storage.handoff import Ticket, deliver
from engram.storage.rows.database import Connection


@dataclass(frozen=True, slots=True)
class Write:
    """A piece of work and who waits for it."""

    work: Callable[[Any], Any]
    ticket: Ticket[Any]
    announce: Announce | None = None
    """Is told of the audit rows once they are durable."""
    audited: list[AuditRecord] = field(default_factory=list[AuditRecord])


class WriteSession(Protocol):
    """What writes to a database, one transaction after another."""

    def translated_failures(self) -> AbstractContextManager[None]:
        """Raise what the driver reports as errors of `engram.errors`."""
        ...

    def begin(self, *, works: int) -> Connection:
        """Begin a transaction in which so many pieces of work are done, alone in the database."""
        ...

    def mark(self) -> None:
        """Note where a piece of work begins."""
        ...

    def undo(self, error: Exception) -> None:
        """Undo the piece of work that raised `error`; raise if the transaction is lost with it."""
        ...

    def keep(self) -> None:
        """Forget the mark."""
        ...

    def commit(self) -> None:
        """Return when everything is durable."""
        ...

    def abandon(self) -> None:
        """Leave nothing of the transaction, nor a connection in doubt."""
        ...


def commit_together(writes: Sequence[Write], session: WriteSession) -> None:
    """Do all work that is still waited for, and tell who waits how it went."""
    awaited = [write for write in writes if not write.ticket.is_abandoned]
    if awaited:
        _commit(awaited, session)
    deliver([write.ticket for write in writes])
    for write in awaited:
        if write.announce is not None and write.audited:
            write.announce(write.audited)


def _commit(writes: Sequence[Write], session: WriteSession) -> None:
    """Do the work in one transaction; when that fails, every piece of it has failed."""
    try:
        with session.translated_failures():
            connection = session.begin(works=len(writes))
            for write in writes:
                _do(write, connection, session)
            session.commit()
    except Exception as exc:  # noqa: BLE001 - it is the waiters', and the thread lives on
        for write in writes:
            write.ticket.fail(exc)
            write.audited.clear()
        session.abandon()


def _do(write: Write, connection: Connection, session: WriteSession) -> None:
    """Do one piece of work; its failure undoes that piece alone."""
    session.mark()
    try:
        wanted = None if write.announce is None else write.audited
        with session.translated_failures(), gathering(wanted):
            write.ticket.succeed(write.work(connection))
    except Exception as exc:  # noqa: BLE001 - it is the waiter's
        write.audited.clear()
        session.undo(exc)
        write.ticket.fail(exc)
    session.keep()

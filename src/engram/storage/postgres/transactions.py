"""Begin transactions: of one organisation, or on the tables of all."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, Protocol

import psycopg

from engram.errors import NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.postgres.connection import PostgresConnection
from engram.storage.postgres.pool import Driver
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries


class SeenRevision:
    """The newest revision that any thread has seen, and when it was surely the newest of all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._revision = 0
        self._newest_at = -inf
        self._doubted_at = -inf

    @property
    def revision(self) -> int:
        """What every later read of this process shows, or a newer one."""
        return self._revision

    @property
    def newest_at(self) -> float:
        """A moment of the monotonic clock at which nobody had written a newer one."""
        return self._newest_at

    def note(self, revision: int, *, newest_at: float = -inf) -> None:
        """Take note of a revision, and of when it was the newest that the primary had."""
        with self._lock:
            self._revision = max(self._revision, revision)
            # Who asked before somebody told of a write may have been answered before it.
            if newest_at > self._doubted_at:
                self._newest_at = max(self._newest_at, newest_at)

    def doubt(self) -> None:
        """Take note that somebody has written since."""
        with self._lock:
            self._newest_at = -inf
            self._doubted_at = monotonic()


_SQL = load_queries("postgres/transactions.sql")

_RECENT_WRITES = 32
"""How many marks a row holds, as `transactions.sql` says."""


class BehindError(Exception):
    """A replica lacks what its primary had."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that writes."""

    connection: PostgresConnection
    mark: int
    """By which it is found later, if it was committed."""


class Scope(Protocol):
    """Whose rows a transaction sees."""

    def begin_read(self, driver: Driver) -> PostgresConnection:
        """Begin to read one snapshot."""
        ...

    def begin_write(self, driver: Driver) -> Begun:
        """Begin to write, when nobody else does."""
        ...

    def find_write(self, driver: Driver, begun: Begun) -> bool | None:
        """Begin a transaction, and say in it whether another one was committed; None if unknown.

        Whoever still writes is waited for.
        """
        ...

    def note_write(self, begun: Begun, *, at: float) -> None:
        """Take note that a transaction is committed, and was being so at a moment."""
        ...


class OrganizationScope:
    """The rows of one organisation."""

    def __init__(self, number: int, organization_id: OrganizationId) -> None:
        self.number = number
        self.id = organization_id
        self.is_gone = False
        """Whether the organisation was seen to be deleted."""
        self.seen = SeenRevision()

    def begin_read(self, driver: Driver) -> PostgresConnection:
        """Begin to read one snapshot.

        Raises:
            NotFoundError: the organisation has been deleted.
        """
        asking_at = monotonic()
        revision = self._first(driver, "begin_read")
        self.seen.note(revision, newest_at=asking_at)
        return PostgresConnection(driver, revision=revision)

    def begin_read_of(self, driver: Driver, revision: int) -> PostgresConnection:
        """Begin to read one snapshot of a replica, which shows `revision` or a newer one.

        Raises:
            BehindError: the replica has none yet.
        """
        row = _run(driver, "begin_read", self._values())
        if row is None or row[0] < revision:
            raise BehindError
        return PostgresConnection(driver, revision=row[0])

    def begin_write(self, driver: Driver) -> Begun:
        """Begin to write, when nobody else writes in the organisation.

        Raises:
            NotFoundError: the organisation has been deleted.
        """
        mark = _new_mark()
        revision = self._first(driver, "begin_write", mark=mark)
        return Begun(PostgresConnection(driver, revision=revision), mark)

    def find_write(self, driver: Driver, begun: Begun) -> bool | None:
        return _find(driver, "find_write", begun, self._values(mark=begun.mark))

    def note_write(self, begun: Begun, *, at: float) -> None:
        self.seen.note(begun.connection.revision, newest_at=at)

    def current_revision(self, driver: Driver) -> int:
        """Return the revision that a read would see, without beginning one.

        Raises:
            NotFoundError: the organisation has been deleted.
        """
        return self._first(driver, "current_revision")

    def _first(self, driver: Driver, statements: str, **values: int) -> int:
        row = _run(driver, statements, self._values(**values))
        if row is None:
            self.is_gone = True
            raise NotFoundError("organization", self.id)
        return row[0]

    def _values(self, **values: int) -> dict[str, Any]:
        # The number alone may be another's, in a database that lost its newest organisations.
        return {"organization_id": self.number, "public_id": self.id, **values}


class RemovalScope:
    """The rows of an organisation that was deleted."""

    def __init__(self, number: int) -> None:
        self.number = number

    def begin_read(self, driver: Driver) -> PostgresConnection:
        return self.begin_write(driver).connection

    def begin_write(self, driver: Driver) -> Begun:
        """Begin to remove them.

        Raises:
            NotFoundError: they have been removed.
        """
        if not self._begin(driver):
            raise NotFoundError("organization", str(self.number))
        return Begun(PostgresConnection(driver), mark=0)

    def find_write(self, driver: Driver, begun: Begun) -> bool | None:  # noqa: ARG002 gone is gone
        return not self._begin(driver)

    def note_write(self, begun: Begun, *, at: float) -> None:
        """Do nothing: nobody will read."""

    def _begin(self, driver: Driver) -> bool:
        return _run(driver, "begin_removal", {"organization_id": self.number}) is not None


class ControlScope:
    """The tables that are no organisation's."""

    def begin_read(self, driver: Driver) -> PostgresConnection:
        _run(driver, "begin_control_read", {})
        return PostgresConnection(driver)

    def begin_write(self, driver: Driver) -> Begun:
        mark = _new_mark()
        row = _run(driver, "begin_control_write", {"mark": mark})
        if row is None:
            raise psycopg.InternalError("a row that is always there is missing")
        return Begun(PostgresConnection(driver, revision=row[0]), mark)

    def find_write(self, driver: Driver, begun: Begun) -> bool | None:
        return _find(driver, "find_control_write", begun, {"mark": begun.mark})

    def note_write(self, begun: Begun, *, at: float) -> None:
        """Do nothing: what is of no organisation is always read from the primary."""


def _new_mark() -> int:
    return secrets.randbits(63)


def _find(driver: Driver, statements: str, begun: Begun, values: Mapping[str, Any]) -> bool | None:
    row = _run(driver, statements, values)
    if row is None:
        return None
    is_found, revision = row
    # With so many writes since, its mark may have been there.
    is_forgotten = revision - begun.connection.revision >= _RECENT_WRITES
    return None if is_forgotten and not is_found else is_found


def choose(connection: Connection, number: int) -> None:
    """Let the rest of a transaction see the rows of an organisation."""
    connection.execute(_SQL["choose"].replace("/*organization*/", str(number)))


class ControlReach:
    """Narrows what transactions on the control tables see."""

    def to_organization(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Show the rest of a transaction one organisation alone."""
        _own(connection).run_together(_SQL["reach_organization"], {"public_id": organization_id})

    def to_secret(self, connection: Connection, secret_hash: str) -> None:
        """Show the rest of a transaction one key, and the organisation it belongs to."""
        own = _own(connection)
        row = own.run_together(_SQL["reach_secret"], {"secret_hash": secret_hash})
        if row is not None:
            self.to_organization(connection, row[0])


def _own(connection: Connection) -> PostgresConnection:
    if not isinstance(connection, PostgresConnection):
        raise TypeError("a connection of another database")
    return connection


def _run(driver: Driver, name: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    return PostgresConnection(driver).run_together(_SQL[name], values)

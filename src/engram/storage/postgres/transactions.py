"""Begin transactions: of one organisation, or on the control tables."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, Protocol, TypeAlias

import psycopg

from engram.errors import NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.postgres.connection import Check, PostgresConnection, own
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/transactions.sql")
_Row: TypeAlias = tuple[Any, ...] | None

_RECENT_WRITES = 32
"""How many marks a row holds, as `transactions.sql` says."""


class SeenRevision:
    """The newest revision that any thread has seen, and when it was surely the newest of all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.revision = 0
        """Every later read of this process shows this revision or a newer one."""
        self.newest_at = -inf
        """A moment of the monotonic clock at which nobody had written a newer one."""

    def note(self, revision: int, *, newest_at: float = -inf) -> None:
        """Record a revision, and when it was the newest that the primary had."""
        with self._lock:
            self.revision = max(self.revision, revision)
            self.newest_at = max(self.newest_at, newest_at)


class BehindError(Exception):
    """A replica lacks what its primary had."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that writes."""

    connection: PostgresConnection
    mark: int
    """Random number by which it is found later, if it was committed."""


class Scope(Protocol):
    """Whose rows a transaction sees.

    What the beginning of one raises is raised by the first answer that is read in it.
    """

    def begin_read(self, connection: PostgresConnection) -> None:
        """Begin to read one snapshot."""
        ...

    def begin_write(self, connection: PostgresConnection) -> Begun:
        """Begin to write, when nobody else does."""
        ...

    def find_write(self, connection: PostgresConnection, begun: Begun) -> bool | None:
        """Begin a transaction, and return whether another one was committed; None if unknown.

        Waits for whoever still writes.
        """
        ...

    def note_write(self, begun: Begun, *, at: float) -> None:
        """Record that a transaction was committed at a moment."""
        ...


class OrganizationScope:
    """The rows of one organisation; every `begin_…` raises NotFoundError if it has been deleted."""

    def __init__(self, number: int, organization_id: OrganizationId) -> None:
        self.number = number
        self.id = organization_id
        self.is_gone = False
        """Whether the organisation was seen to be deleted."""
        self.seen = SeenRevision()

    def begin_read(self, connection: PostgresConnection) -> None:
        asking_at = monotonic()

        def check(row: _Row) -> int:
            revision = self._revision_in(row)
            self.seen.note(revision, newest_at=asking_at)
            return revision

        connection.begin(_SQL["begin_read"], self._values(), check)

    def begin_read_of(self, connection: PostgresConnection, revision: int) -> None:
        """Begin to read one snapshot of a replica, of `revision` or a newer one.

        Raises:
            BehindError: the replica has none yet.
        """

        def check(row: _Row) -> int:
            if row is None or row[0] < revision:
                raise BehindError
            self.seen.note(row[0])
            return row[0]

        connection.begin(_SQL["begin_read"], self._values(), check)

    def begin_write(self, connection: PostgresConnection) -> Begun:
        mark = _new_mark()
        connection.begin(_SQL["begin_write"], self._values(mark=mark), self._revision_in)
        return Begun(connection, mark)

    def find_write(self, connection: PostgresConnection, begun: Begun) -> bool | None:
        return _find(connection, "find_write", begun, self._values(mark=begun.mark))

    def note_write(self, begun: Begun, *, at: float) -> None:
        self.seen.note(begun.connection.revision, newest_at=at)

    def _revision_in(self, row: _Row) -> int:
        if row is None:
            self.is_gone = True
            raise NotFoundError("organization", self.id)
        return row[0]

    def _values(self, **values: int) -> dict[str, Any]:
        # The number alone may be another's, in a database that lost its newest organisations.
        return {"organization_id": self.number, "public_id": self.id, **values}


class RemovalScope:
    """The rows of a deleted organisation; NotFoundError if they have been removed."""

    def __init__(self, number: int) -> None:
        self.number = number

    def begin_read(self, connection: PostgresConnection) -> None:
        self.begin_write(connection)

    def begin_write(self, connection: PostgresConnection) -> Begun:
        def check(row: _Row) -> int:
            if row is None:
                raise NotFoundError("organization", str(self.number))
            return 0

        self._begin(connection, check)
        return Begun(connection, mark=0)

    def find_write(
        self,
        connection: PostgresConnection,
        begun: Begun,  # noqa: ARG002 gone is gone
    ) -> bool | None:
        # The rows that are left have no revisions.
        self._begin(connection, lambda row: int(row is None))
        return connection.revision == 1

    def note_write(self, begun: Begun, *, at: float) -> None:
        """Do nothing: nobody will read."""

    def _begin(self, connection: PostgresConnection, check: Check) -> None:
        connection.begin(_SQL["begin_removal"], {"organization_id": self.number}, check)


class ClaimScope:
    """The rows of an organisation for who claims its work, which waits for nobody and needs no revision."""

    def __init__(self, number: int) -> None:
        self.number = number

    def begin_read(self, connection: PostgresConnection) -> None:
        self.begin_write(connection)

    def begin_write(self, connection: PostgresConnection) -> Begun:
        connection.begin(_SQL["begin_claim"], {"organization_id": self.number}, _first)
        return Begun(connection, mark=0)

    def find_write(
        self,
        connection: PostgresConnection,  # noqa: ARG002 there is no mark to look for
        begun: Begun,  # noqa: ARG002
    ) -> bool | None:
        return None

    def note_write(self, begun: Begun, *, at: float) -> None:
        """Do nothing: leases change nothing that is read."""


class ControlScope:
    """The control tables, which belong to no organisation."""

    def begin_read(self, connection: PostgresConnection) -> None:
        connection.begin(_SQL["begin_control_read"], {}, _first)

    def begin_write(self, connection: PostgresConnection) -> Begun:
        mark = _new_mark()
        connection.begin(_SQL["begin_control_write"], {"mark": mark}, _first)
        return Begun(connection, mark)

    def find_write(self, connection: PostgresConnection, begun: Begun) -> bool | None:
        return _find(connection, "find_control_write", begun, {"mark": begun.mark})

    def note_write(self, begun: Begun, *, at: float) -> None:
        """Do nothing: control tables are always read from the primary."""


class ControlReach:
    """Narrows what transactions on the control tables see."""

    def to_organization(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Show the rest of a transaction one organisation alone."""
        own(connection).run_together(_SQL["reach_organization"], {"public_id": organization_id})

    def to_secret(self, connection: Connection, secret_hash: str) -> None:
        """Show the rest of a transaction one key, and the organisation it belongs to."""
        values = {"secret_hash": secret_hash}
        row = own(connection).run_together(_SQL["reach_secret"], values)
        if row is not None:
            self.to_organization(connection, row[0])


def choose(connection: Connection, number: int) -> None:
    """Let the rest of a transaction see the rows of an organisation."""
    connection.execute(_SQL["choose"].replace("/*organization*/", str(number)))


def revision_of(connection: Connection) -> int:
    """Return the revision of the organisation that a transaction sees."""
    return own(connection).revision


def _new_mark() -> int:
    return secrets.randbits(63)


def _first(row: _Row) -> int:
    if row is None:
        raise psycopg.InternalError("a row that is always there is missing")
    return row[0]


def _find(
    connection: PostgresConnection, statements: str, begun: Begun, values: Mapping[str, Any]
) -> bool | None:
    found: list[_Row] = []

    def check(row: _Row) -> int:
        found.append(row)
        return 0 if row is None else row[1]

    connection.begin(_SQL[statements], values, check)
    revision = connection.revision
    if found[0] is None:
        return None
    is_found = found[0][0]
    # After so many later writes the mark may have been dropped.
    is_forgotten = revision - begun.connection.revision >= _RECENT_WRITES
    return None if is_forgotten and not is_found else is_found

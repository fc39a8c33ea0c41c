"""Begin transactions: of one organisation, or on the tables of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from engram.errors import NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.postgres.connection import PostgresConnection
from engram.storage.postgres.dialect import translate
from engram.storage.postgres.pool import Driver
from engram.storage.tables.queries import load_queries

_SQL = load_queries("transactions.sql", package="engram.storage.postgres")
_CONTROL_LOCK = 0x456E6772
"""Only ever taken as this number, in a database that is Engram's."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that writes."""

    connection: PostgresConnection
    id: str
    """By which the server tells later whether it was committed."""


class Scope(Protocol):
    """Whose rows a transaction sees."""

    def begin_read(self, driver: Driver) -> PostgresConnection:
        """Begin to read one snapshot."""
        ...

    def begin_write(self, driver: Driver) -> Begun:
        """Begin to write, when nobody else does."""
        ...


class OrganizationScope:
    """The rows of one organisation."""

    def __init__(self, number: int, organization_id: OrganizationId) -> None:
        self.number = number
        self.id = organization_id
        self.is_gone = False
        """Whether the organisation was seen to be deleted."""

    def begin_read(self, driver: Driver) -> PostgresConnection:
        """Begin to read one snapshot.

        Raises:
            NotFoundError: the organisation has been deleted.
        """
        row = self._begin(driver, "begin_read")
        return PostgresConnection(driver, revision=row[0])

    def begin_write(self, driver: Driver) -> Begun:
        """Begin to write, when nobody else writes in the organisation.

        Raises:
            NotFoundError: the organisation has been deleted.
        """
        row = self._begin(driver, "begin_write")
        return Begun(PostgresConnection(driver, revision=row[0]), row[1])

    def _begin(self, driver: Driver, statements: str) -> tuple[Any, ...]:
        row = _run(driver, statements, {"organization_id": self.number})
        if row is None:
            self.is_gone = True
            raise NotFoundError("organization", self.id)
        return row


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
        row = _run(driver, "begin_removal", {"organization_id": self.number})
        if row is None:
            raise NotFoundError("organization", str(self.number))
        return Begun(PostgresConnection(driver), row[1])


class ControlScope:
    """The tables that are no organisation's."""

    def begin_read(self, driver: Driver) -> PostgresConnection:
        _run(driver, "begin_control_read", {})
        return PostgresConnection(driver)

    def begin_write(self, driver: Driver) -> Begun:
        row = _run(driver, "begin_control_write", {"lock": _CONTROL_LOCK})
        if row is None:
            raise psycopg.InternalError("a row that is always there is missing")
        return Begun(PostgresConnection(driver), row[1])


def get_outcome(driver: Driver, transaction_id: str) -> str | None:
    """Return what has become of a transaction; None if the server never heard of it."""
    statement = translate(_SQL["get_outcome"]).text
    try:
        row = driver.execute(statement, {"transaction": transaction_id}).fetchone()
    except psycopg.errors.InvalidParameterValue:
        # A server that took over before the transaction reached it.
        return None
    return None if row is None else row[0]


def _run(driver: Driver, name: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Send several statements at once; return the first row of the last."""
    with psycopg.ClientCursor(driver) as cursor:
        cursor.execute(translate(_SQL[name]).text, values)
        while cursor.nextset():
            pass
        return cursor.fetchone()

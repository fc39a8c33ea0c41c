"""Give organisations their first row, and remove all rows of those that were deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from engram.errors import NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.postgres.database import PostgresDatabase
from engram.storage.postgres.transactions import OrganizationScope, RemovalScope, Scope, choose
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/organizations.sql")


class Organizations:
    """The organisations of a database, by the numbers that their rows have."""

    def __init__(
        self,
        control: PostgresDatabase,
        *,
        database_of: Callable[[Scope], PostgresDatabase],
        drop_index: Callable[[int], Awaitable[None]],
    ) -> None:
        self._control = control
        self._drop_index = drop_index
        self._database_of = database_of

    async def find(self, organization_id: OrganizationId) -> OrganizationScope:
        """Return the scope of an organisation, made ready for its first transaction.

        Raises:
            NotFoundError: there is no such organisation.
        """
        number = await self._control.read(partial(_find_ready, public_id=organization_id))
        if number is None:
            number = await self._control.write(partial(_make_ready, public_id=organization_id))
        return OrganizationScope(number, organization_id)

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """End all use of an organisation's rows, in the transaction that removes it.

        Who writes at this moment is waited for; whoever comes later finds the mark.
        """
        number = _number_of(connection, organization_id)
        choose(connection, number)
        values = {"organization_id": number, "public_id": organization_id}
        connection.execute(_SQL["mark_deleted"], values)
        connection.execute(_SQL["plan_removal"], values)

    async def finish(self) -> None:
        """Remove the rows of every deleted organisation, also of those that a crash left behind."""
        for number in await self._control.read(_list_removals):
            database = self._database_of(RemovalScope(number))
            await self._drop_index(number)
            # Raised when another process has removed them.
            with suppress(NotFoundError):
                await database.write(partial(_remove, number=number))


def _find_ready(connection: Connection, *, public_id: OrganizationId) -> int | None:
    """Return the number of an organisation, None if it has no row of its own yet."""
    number = _number_of(connection, public_id)
    choose(connection, number)
    found = connection.execute(_SQL["find_meta"], {"organization_id": number}).fetchone()
    return None if found is None else number


def _make_ready(connection: Connection, *, public_id: OrganizationId) -> int:
    """Add the first rows of an organisation, unless another process was quicker."""
    if (ready := _find_ready(connection, public_id=public_id)) is not None:
        return ready
    number = _number_of(connection, public_id)
    values = {"organization_id": number, "public_id": public_id}
    connection.execute(_SQL["add_meta"], values)
    connection.execute(_SQL["add_word_index"], values)
    return number


def _number_of(connection: Connection, public_id: OrganizationId) -> int:
    row = connection.execute(_SQL["find_number"], {"public_id": public_id}).fetchone()
    if row is None:
        raise NotFoundError("organization", public_id)
    return row[0]


def _list_removals(connection: Connection) -> list[int]:
    return [number for (number,) in connection.execute(_SQL["list_removals"])]


def _remove(connection: Connection, *, number: int) -> None:
    values = {"organization_id": number}
    for (name,) in connection.execute(_SQL["tenant_tables"]).fetchall():
        connection.execute(_SQL["delete_rows"].replace("/*table*/", name), values)
    connection.execute(_SQL["finish_removal"], values)

"""Where organisations are: found, created, followed when they are moved, and removed."""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

from engram.errors import NotFoundError, StorageError, StoreBusyError
from engram.model.ids import OrganizationId
from engram.model.status import WORK_KINDS
from engram.storage.postgres.changes import tell_keys
from engram.storage.postgres.homes import CONTROL, Home, Homes, Place
from engram.storage.postgres.transactions import OrganizationScope, choose
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/organizations.sql")
_HOMES = load_queries("postgres/homes.sql")

_MOVES_MAX = 8
"""How often an organisation may be moved while it is looked for."""

logger = logging.getLogger(__name__)


class Seal(NamedTuple):
    """What the first row of an organisation says about where it is."""

    moved_to: str | None
    number: int | None
    """That its rows have there."""


class Organizations:
    """The organisations of an installation, and the homes that they are at."""

    def __init__(self, homes: Homes) -> None:
        self._homes = homes
        self._control = homes.control.control

    async def find(self, organization_id: OrganizationId) -> tuple[Home, OrganizationScope]:
        """Return where an organisation is, and create its first rows if needed.

        Raises:
            NotFoundError: there is no such organisation.
            StorageError: its home cannot be used.
        """
        for _ in range(_MOVES_MAX):
            place, seal = await self._control.read(partial(_look, public_id=organization_id))
            home = await self._homes.open(place)
            if home is not self._homes.control:
                seal = await home.control.read(partial(read_seal, number=place.number))
            if seal is None:
                adding = partial(add_first_rows, number=place.number, public_id=organization_id)
                await home.control.write(adding)
            elif seal.moved_to is not None:
                switching = partial(switch, organization_id=organization_id, former=place.number)
                await self._control.write(partial(switching, seal=seal))
                continue
            return home, OrganizationScope(place.number, organization_id)
        raise StoreBusyError(f"{organization_id} is being moved; try again")

    def place(self, connection: Connection, organization_id: OrganizationId, home: str) -> None:
        """Put a new organisation at a home, in the transaction that creates it.

        Raises:
            NotFoundError: there is no such home.
        """
        if connection.execute(_HOMES["find_home"], {"name": home}).fetchone() is None:
            raise NotFoundError("home", home)
        connection.execute(_HOMES["place"], {"public_id": organization_id, "home": home})

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Mark an organisation as deleted, in the transaction that removes it.

        Waits for whoever writes now; later transactions find the mark. At another home it is marked
        once this transaction is committed.
        """
        place = place_of(connection, organization_id)
        values = {"public_id": organization_id}
        others = connection.execute(_HOMES["list_rows"], values).fetchall()
        for number, home in {(place.number, place.home), *others}:
            if home is None:
                mark_deleted(connection, number)
            removal = {**values, "number": number, "home": home}
            connection.execute(_HOMES["add_removal"], removal)

    async def finish(self) -> None:
        """Remove the rows of every deleted organisation, also of those that a crash left behind.

        Those at a home that is away are left for later.
        """
        await self._homes.control.remove_rows()
        for public_id, place in await self._control.read(_list_passed_on):
            try:
                await self._pass_on(public_id, place)
            except StorageError:
                logger.warning("rows are left at the home %s", place.home, exc_info=True)

    async def _pass_on(self, public_id: OrganizationId, place: Place) -> None:
        home = await self._homes.open(place)
        await home.control.write(partial(plan_removal, public_id=public_id, number=place.number))
        await home.remove_rows()
        await self._control.write(
            lambda connection: connection.execute(_HOMES["end_removal"], {"number": place.number})
        )


def place_of(connection: Connection, organization_id: OrganizationId) -> Place:
    """Return where an organisation is.

    Raises:
        NotFoundError: there is no such organisation.
    """
    row = connection.execute(_HOMES["find_place"], {"public_id": organization_id}).fetchone()
    if row is None:
        raise NotFoundError("organization", organization_id)
    return Place(*row)


def switch(
    connection: Connection, *, organization_id: OrganizationId, former: int, seal: Seal
) -> None:
    """Record where an organisation is whose rows were sealed, and tell all processes.

    Does nothing if another process has done so.
    """
    values = {
        "public_id": organization_id,
        "former": former,
        "home": None if seal.moved_to == CONTROL else seal.moved_to,
        "number": seal.number,
    }
    if connection.execute(_HOMES["switch"], values).rowcount:
        tell_keys(connection, organization_id)


def read_seal(connection: Connection, number: int) -> Seal | None:
    """Return what the first row of an organisation says, None if it has none.

    The organisation is chosen for the rest of the transaction.
    """
    choose(connection, number)
    row = connection.execute(_SQL["find_meta"], {"organization_id": number}).fetchone()
    return None if row is None else Seal(*row)


def has_first_rows(connection: Connection, number: int) -> bool:
    """Return True if an organisation has its first rows; chooses it for the rest of the transaction."""
    return read_seal(connection, number) is not None


def add_first_rows(connection: Connection, number: int, *, public_id: OrganizationId) -> None:
    """Add the first rows of an organisation, unless it has them."""
    if not has_first_rows(connection, number):
        values = {"organization_id": number, "public_id": public_id}
        connection.execute(_SQL["add_meta"], values)
        connection.execute(_SQL["add_word_index"], values)
        connection.executemany(_SQL["add_due"], [{**values, "kind": kind} for kind in WORK_KINDS])


def mark_deleted(connection: Connection, number: int) -> None:
    """Have every process refuse to use the rows of an organisation; chooses it."""
    choose(connection, number)
    connection.execute(_SQL["mark_deleted"], {"organization_id": number})


def plan_removal(connection: Connection, *, public_id: OrganizationId, number: int) -> None:
    """Mark the rows of an organisation as deleted, and have them removed from this database."""
    mark_deleted(connection, number)
    values = {"number": number, "public_id": public_id, "home": None}
    connection.execute(_HOMES["add_removal"], values)


def _look(connection: Connection, *, public_id: OrganizationId) -> tuple[Place, Seal | None]:
    """Return where an organisation is, and what is said there if that is the control database."""
    place = place_of(connection, public_id)
    return place, read_seal(connection, place.number) if place.home is None else None


def _list_passed_on(connection: Connection) -> list[tuple[OrganizationId, Place]]:
    return [
        (public_id, Place(number, *home))
        for number, public_id, *home in connection.execute(_HOMES["list_passed_on"])
    ]

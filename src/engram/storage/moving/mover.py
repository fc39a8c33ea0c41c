"""Move organisations to another database: all rows, proved equal, and only then known there.

An organisation that is being copied is known to nobody but the move itself, so no process serves or
changes half of it. Interrupted, a move goes on behind the last page that it wrote down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engram.clock import Clock, to_microseconds
from engram.errors import ConflictError, NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.moving.control import (
    Move,
    OrganizationRow,
    add_audit,
    advance_move,
    begin_move,
    list_moves,
    list_organizations,
    mark_stale,
    publish,
    read_control_rows,
    read_lost_audit,
    restart_move,
)
from engram.storage.moving.planning import Arrived, Plan
from engram.storage.moving.ports import Source, Target
from engram.storage.moving.rows import Key, Row, TableRows
from engram.storage.moving.sides import Side, agree_on_tables
from engram.storage.moving.tables import TABLES
from engram.storage.rows.database import Connection
from engram.storage.tenant import Tenant
from engram.storage.words.rebuild import prepare_upkeep

Advance = Callable[[int], None]
"""Takes how many rows were copied, or compared, since it was called last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copy of one organisation."""

    source: Side
    target: Target
    tenant: Tenant
    """The organisation at the target."""
    now: Callable[[], int]
    advance: Advance

    async def run(self, move: Move) -> None:
        """Copy what is left to copy, and compare everything.

        Raises:
            ConflictError: the source was written to meanwhile, or the databases do not fit.
        """
        if move.state == "stale":
            move = await self._begin_anew(move)
        copied = Side(self.tenant.database, self.tenant.number)
        tables = await agree_on_tables(self.source, copied)
        for rows in _tables_left(tables, move):
            is_begun = rows.table.name == move.table
            await self._copy_table(rows, after=move.last_key if is_begun else None)
        await self._compare(tables, copied)
        await self.target.skip_numbers(self.tenant, await self.source.given_numbers())

    async def _begin_anew(self, move: Move) -> Move:
        await self.tenant.database.write(partial(_clear, tenant=self.tenant))
        return await self.target.control.write(partial(restart_move, move=move, now=self.now()))

    async def _copy_table(self, rows: TableRows, *, after: Key | None) -> None:
        """Copy what follows a key; every page is durable before it is noted."""
        while page := await self.source.page(rows, after):
            await self.tenant.database.write(partial(self._insert, rows=rows, page=page))
            after = rows.key_of(page[-1])
            await self._note(rows, after)
            self.advance(len(page))

    def _insert(self, connection: Connection, *, rows: TableRows, page: list[Row]) -> None:
        rows.insert(connection, self.tenant.number, page, keeping=self.target.keeping)

    async def _note(self, rows: TableRows, last_key: Key) -> None:
        await self.target.control.write(
            partial(
                advance_move,
                organization_id=self.tenant.id,
                table=rows.table.name,
                last_key=last_key,
                now=self.now(),
            )
        )

    async def _compare(self, tables: Sequence[TableRows], copied: Side) -> None:
        theirs = await self.source.digests(tables)
        ours = await copied.digests(tables)
        self.advance(sum(digest.rows for digest in ours))
        differing = [
            rows.table.name
            for rows, their, our in zip(tables, theirs, ours, strict=True)
            if their != our
        ]
        if not differing:
            return
        await self.target.control.write(
            partial(mark_stale, organization_id=self.tenant.id, now=self.now())
        )
        raise ConflictError(
            f"{self.tenant.id} was written to while it was copied ({', '.join(differing)}): stop"
            " every process that uses the source, and repeat the command, which copies this"
            " organisation anew"
        )


def _tables_left(tables: Sequence[TableRows], move: Move) -> Sequence[TableRows]:
    names = [rows.table.name for rows in tables]
    return tables if move.table is None else tables[names.index(move.table) :]


def _clear(connection: Connection, *, tenant: Tenant) -> None:
    for table in reversed(TABLES):
        TableRows(table).clear(connection, tenant.number)


class Mover:
    """Moves organisations from one database to another."""

    def __init__(self, source: Source, target: Target, *, clock: Clock) -> None:
        self._source = source
        self._target = target
        self._clock = clock

    async def plan(self, organization_id: OrganizationId | None = None) -> list[Plan]:
        """Return what there is to do for one organisation, or for all.

        Raises:
            NotFoundError: the source has no such organisation.
            ConflictError: the target cannot have one of them.
        """
        organizations = await self._source.control.read(list_organizations)
        chosen = [each for each in organizations if organization_id in (None, each.id)]
        if organization_id is not None and not chosen:
            raise NotFoundError("organization", organization_id)
        arrived = Arrived()
        if not self._target.is_new:
            arrived = await self._target.control.read(_read_arrived)
        return [await self._plan(each, arrived) for each in chosen]

    async def move(self, plan: Plan, *, advance: Advance = lambda _: None) -> None:
        """Move an organisation, or what is left of it.

        Raises:
            ConflictError: the source was written to meanwhile, or the databases do not fit.
        """
        if plan.standing == "moved":
            return
        organization = plan.organization
        move = await self._target.control.write(
            partial(begin_move, organization_id=organization.id, now=self._now())
        )
        await self._copy(organization, move, advance=advance)
        rows = await self._source.control.read(
            partial(read_control_rows, organization_id=organization.id)
        )
        await self._target.control.write(
            partial(publish, move=move, organization=organization, rows=rows, now=self._now())
        )

    async def move_lost_audit(self) -> None:
        """Copy what was written down of organisations that are gone."""
        rows = await self._source.control.read(read_lost_audit)
        await self._target.control.write(partial(add_audit, rows=rows))

    async def _plan(self, organization: OrganizationRow, arrived: Arrived) -> Plan:
        standing = arrived.standing_of(organization)
        rows = 0 if standing == "moved" else await self._count_rows(organization)
        return Plan(organization=organization, standing=standing, rows=rows)

    async def _count_rows(self, organization: OrganizationRow) -> int:
        async with self._source.organization(organization.number, organization.id) as database:
            return 0 if database is None else await Side(database, organization.number).count_rows()

    async def _copy(self, organization: OrganizationRow, move: Move, *, advance: Advance) -> None:
        async with (
            self._target.organization(move.number, organization.id) as tenant,
            self._source.organization(organization.number, organization.id) as database,
        ):
            if database is not None:
                copy = Copy(
                    source=Side(database, organization.number),
                    target=self._target,
                    tenant=tenant,
                    now=self._now,
                    advance=advance,
                )
                await copy.run(move)
            # The word index is not copied: it follows from the messages.
            await prepare_upkeep(tenant)

    def _now(self) -> int:
        return to_microseconds(self._clock.now())


def _read_arrived(connection: Connection) -> Arrived:
    return Arrived(list_organizations(connection), list_moves(connection))

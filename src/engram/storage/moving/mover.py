"""Copy organisations to another database: all rows, proved equal, and only then known there.

An organisation that is being copied is known to nobody but the move itself, so no process serves or
changes half of it. Interrupted, a move goes on behind the last page that it wrote down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from engram.clock import Clock, to_microseconds
from engram.errors import ConflictError, NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.moving.control import (
    Move,
    OrganizationRow,
    add_audit,
    advance_move,
    begin_move,
    change_move,
    list_moves,
    list_organizations,
    publish,
    read_control_rows,
    read_lost_audit,
    restart_move,
)
from engram.storage.moving.copying import (
    Advance,
    Side,
    agree_on_tables,
    clear_tables,
    copy_table,
    find_differences,
)
from engram.storage.moving.ports import Source, Target
from engram.storage.moving.rows import Key, TableRows
from engram.storage.moving.tables import TABLES
from engram.storage.tables.database import Connection
from engram.storage.tables.rebuild import prepare_upkeep
from engram.storage.tables.tenant import Tenant

Standing = Literal["new", "begun", "moved"]
"""How far an organisation is at the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An organisation that is to be moved."""

    organization: OrganizationRow
    standing: Standing
    move: Move | None
    rows: int
    """Of all tables; 0 of one that was moved."""

    @property
    def steps(self) -> int:
        """How often a move calls `advance` for a row: when it is copied, and when it is proved."""
        return 2 * self.rows


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
            ConflictError: the target has it already, and not from a move; or both sides have
                organisations of this machine's owner.
        """
        organizations = await self._source.control.read(list_organizations)
        chosen = [each for each in organizations if organization_id in (None, each.id)]
        if organization_id is not None and not chosen:
            raise NotFoundError("organization", organization_id)
        present, moves = await self._read_target()
        return [
            await self._plan_one(each, present=present, move=moves.get(each.id)) for each in chosen
        ]

    async def move(self, plan: Plan, *, advance: Advance = lambda _: None) -> int:
        """Move an organisation, or the rest of it; return how many rows it has.

        Raises:
            ConflictError: the source was written to meanwhile, or the databases do not fit.
        """
        if plan.standing == "moved":
            return 0
        organization = plan.organization
        move = await self._begin(plan)
        async with self._target.organization(move.number, organization.id) as tenant:
            async with self._source.organization(organization.number, organization.id) as database:
                if database is not None:
                    source = Side(database, organization.number)
                    await self._move_rows(move, source, tenant, advance=advance)
            # The word index is not copied: it is made of the messages, by whoever opens it.
            await prepare_upkeep(tenant)
        await self._publish(plan.organization, move)
        return plan.rows

    async def move_lost_audit(self) -> int:
        """Copy what was written down of organisations that are gone; return how many rows."""
        rows = await self._source.control.read(read_lost_audit)
        await self._target.control.write(partial(add_audit, rows=rows))
        return len(rows)

    async def _read_target(self) -> tuple[list[OrganizationRow], dict[OrganizationId, Move]]:
        if self._target.is_new:
            return [], {}
        return await self._target.control.read(
            lambda connection: (list_organizations(connection), list_moves(connection))
        )

    async def _plan_one(
        self,
        organization: OrganizationRow,
        *,
        present: Sequence[OrganizationRow],
        move: Move | None,
    ) -> Plan:
        standing = _standing(organization, present=present, move=move)
        rows = 0 if standing == "moved" else await self._count_rows(organization)
        # The trace of an organisation that was moved and deleted since says nothing of this one.
        left = move if standing == "begun" else None
        return Plan(organization=organization, standing=standing, move=left, rows=rows)

    async def _count_rows(self, organization: OrganizationRow) -> int:
        async with self._source.organization(organization.number, organization.id) as database:
            return 0 if database is None else await Side(database, organization.number).count_rows()

    async def _begin(self, plan: Plan) -> Move:
        if plan.move is not None:
            return plan.move
        return await self._target.control.write(
            partial(begin_move, organization_id=plan.organization.id, now=self._now())
        )

    async def _move_rows(
        self, move: Move, source: Side, tenant: Tenant, *, advance: Advance
    ) -> None:
        if move.state == "stale":
            await clear_tables(tenant)
            move = await self._target.control.write(
                partial(restart_move, move=move, now=self._now())
            )
        target = Side(tenant.database, tenant.number)
        tables = await agree_on_tables(source, target)
        await self._copy(tables, move, source, tenant, advance=advance)
        await self._verify(tables, move, source, target, advance=advance)
        await self._target.skip_numbers(tenant, await source.given_numbers())

    async def _copy(
        self,
        tables: Sequence[TableRows],
        move: Move,
        source: Side,
        tenant: Tenant,
        *,
        advance: Advance,
    ) -> None:
        names = [table.name for table in TABLES]
        done = 0 if move.table is None else names.index(move.table)

        async def note(table: str, last_key: Key | None) -> None:
            await self._target.control.write(
                partial(
                    advance_move,
                    organization_id=move.organization_id,
                    table=table,
                    last_key=last_key,
                    now=self._now(),
                )
            )

        for rows in tables[done:]:
            await copy_table(
                rows,
                source,
                tenant,
                after=move.last_key if rows.table.name == move.table else None,
                keeping=self._target.keeping,
                note=note,
                advance=advance,
            )

    async def _verify(
        self,
        tables: Sequence[TableRows],
        move: Move,
        source: Side,
        target: Side,
        *,
        advance: Advance,
    ) -> None:
        differing = await find_differences(tables, source, target, advance=advance)
        if not differing:
            return
        await self._target.control.write(
            partial(
                change_move, organization_id=move.organization_id, state="stale", now=self._now()
            )
        )
        raise ConflictError(
            f"{move.organization_id} was written to while it was copied ({', '.join(differing)}):"
            " stop every process that uses the source, and repeat the command, which copies this"
            " organisation anew"
        )

    async def _publish(self, organization: OrganizationRow, move: Move) -> None:
        rows = await self._source.control.read(
            partial(read_control_rows, organization_id=organization.id)
        )

        def work(connection: Connection) -> None:
            present = {each.id for each in list_organizations(connection)}
            # Another process may have moved the same one.
            if organization.id not in present:
                publish(connection, move, organization, rows, now=self._now())

        await self._target.control.write(work)

    def _now(self) -> int:
        return to_microseconds(self._clock.now())


def _standing(
    organization: OrganizationRow, *, present: Sequence[OrganizationRow], move: Move | None
) -> Standing:
    is_present = any(each.id == organization.id for each in present)
    if is_present and (move is None or move.state != "done"):
        raise ConflictError(
            f"the target has an organisation {organization.id} that was not moved there: move into"
            " another database, or delete that one first"
        )
    if is_present:
        return "moved"
    for each in present:
        if organization.is_local and each.is_local:
            raise ConflictError(
                f"the target has an organisation of this machine's owner already, {each.id}: delete"
                f" it there before you move {organization.id}"
            )
    return "new" if move is None or move.state == "done" else "begun"

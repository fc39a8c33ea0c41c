"""Move organisations to another database: copy all rows, prove them equal, then publish them.

An organisation is not listed at the target before its copy is complete, so no process serves or
changes half of it. An interrupted move resumes after the last page that it recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeVar

from engram.clock import Clock, to_microseconds
from engram.errors import ConflictError, NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.rows.database import Connection, Database
from engram.storage.tenant import Tenant
from engram.storage.words.rebuild import prepare_upkeep
from engram.transfer import control, tables
from engram.transfer.control import Move, OrganizationRow
from engram.transfer.tables import Key, Row, TableRows

T = TypeVar("T")

Standing = Literal["new", "begun", "moved"]
"""How far an organisation is at the target."""

_STORED = frozenset(
    {
        "conversation",
        "conversation_tag",
        "message",
        "captured_message",
        "forgotten_session",
        "memory",
        "memory_version",
        "relation",
        "tombstone",
        "document",
    }
)
"""Tables that only callers write to; others also change by work in the background."""

Advance = Callable[[int], None]
"""Receives how many rows were copied or compared since the last call."""


class Reader(Protocol):
    """A database that is only read."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns for one snapshot; see `Database.read`."""
        ...


class Source(Protocol):
    """The database that organisations are copied from; nothing of it is changed but for its seals."""

    @property
    def can_seal(self) -> bool:
        """Whether `seal` does anything."""
        ...

    @property
    def control(self) -> Reader:
        """The control tables."""
        ...

    def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AbstractAsyncContextManager[Reader | None]:
        """Open the rows of an organisation for reading; None if it never had any.

        Raises:
            StoreCorruptError: it had some, and they are gone.
        """
        ...

    async def seal(
        self, number: int, organization_id: OrganizationId, *, moved_to: str | None
    ) -> None:
        """Have every process refuse to write to an organisation, and name where it is now.

        None for `moved_to` lifts the seal.
        """
        ...


class Target(Protocol):
    """The database that organisations are copied to."""

    @property
    def control(self) -> Database:
        """The control tables."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether there is no store yet; only if it was opened without creating one."""
        ...

    @property
    def is_sqlite(self) -> bool:
        """Whether a column may hold both text and bytes, and text a NUL character."""
        ...

    def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AbstractAsyncContextManager[Tenant]:
        """Open an organisation that the control tables do not list yet; create it if it is new."""
        ...

    async def skip_numbers(self, tenant: Tenant, numbers: Mapping[str, int]) -> None:
        """Have each numbered table assign only serial numbers above these."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An organisation that is to be moved."""

    organization: OrganizationRow
    standing: Standing
    rows: int
    """Of all its tables; 0 if it was moved before."""

    @property
    def steps(self) -> int:
        """How far a move advances: every row is copied, then compared."""
        return 2 * self.rows


class Mover:
    """Moves organisations from one database to another."""

    def __init__(self, source: Source, target: Target, *, clock: Clock, address: str) -> None:
        """Move to a target; sealed sources will name its `address`, which must hold no secret."""
        self._address = address
        self._source = source
        self._target = target
        self._clock = clock

    async def plan(self, organization_id: OrganizationId | None = None) -> list[Plan]:
        """Return what there is to do for one organisation, or for all.

        Raises:
            NotFoundError: the source has no such organisation.
            ConflictError: one of them conflicts with an organisation of the target.
        """
        organizations = await self._source.control.read(control.list_organizations)
        chosen = [each for each in organizations if organization_id in (None, each.id)]
        if organization_id is not None and not chosen:
            raise NotFoundError("organization", organization_id)
        present, moves = list[OrganizationRow](), dict[OrganizationId, Move]()
        if not self._target.is_new:
            present = await self._target.control.read(control.list_organizations)
            moves = await self._target.control.read(control.list_moves)
        return [await self._plan(each, self._check(each, moves, present)) for each in chosen]

    async def move(self, plan: Plan, *, advance: Advance = lambda _: None) -> None:
        """Move an organisation, or the rest of it, and seal it at the source.

        Raises:
            ConflictError: the source was written to meanwhile or since, or the databases do not
                match.
        """
        organization = plan.organization
        if plan.standing == "moved":
            await self._compare_moved(organization)
            return
        move = await self._target.control.write(
            partial(control.begin_move, organization_id=organization.id, now=self._now())
        )
        await self._copy(organization, move, advance=advance)
        rows = await self._source.control.read(
            partial(control.read_control_rows, organization_id=organization.id)
        )
        await self._target.control.write(
            partial(
                control.publish, move=move, organization=organization, rows=rows, now=self._now()
            )
        )

    async def move_lost_audit(self) -> None:
        """Copy the audit trail of deleted organisations."""
        rows = await self._source.control.read(control.read_lost_audit)
        await self._target.control.write(partial(control.add_audit, rows=rows))

    def _check(
        self,
        organization: OrganizationRow,
        moves: Mapping[OrganizationId, Move],
        present: Sequence[OrganizationRow],
    ) -> Standing:
        standing = _standing(organization, moves.get(organization.id), present)
        if standing == "new" and organization.moved_to not in (None, self._address):
            raise ConflictError(
                f"{organization.id} was moved to {organization.moved_to}: move it from there, or run"
                " `engram doctor --accept` to go on with what is here"
            )
        return standing

    async def _plan(self, organization: OrganizationRow, standing: Standing) -> Plan:
        rows = 0
        number = organization.number
        if standing != "moved":
            async with self._source.organization(number, organization.id) as database:
                if database is not None:
                    rows = await database.read(partial(tables.count_rows, number=number))
        return Plan(organization=organization, standing=standing, rows=rows)

    async def _copy(self, organization: OrganizationRow, move: Move, *, advance: Advance) -> None:
        async with (
            self._target.organization(move.number, organization.id) as tenant,
            self._source.organization(organization.number, organization.id) as database,
        ):
            if database is not None:
                copy = _Copy(
                    source=database,
                    number=organization.number,
                    target=self._target,
                    tenant=tenant,
                    now=self._now,
                    advance=advance,
                    seal=partial(self._source.seal, organization.number, organization.id),
                    address=self._address,
                )
                await copy.run(move)
            else:
                await self._seal(organization)
            # The word index is not copied: it is derived from the messages.
            await prepare_upkeep(tenant)

    async def _compare_moved(self, organization: OrganizationRow) -> None:
        """Seal an organisation that was moved before, if it is still what it was.

        Raises:
            ConflictError: the two sides differ.
        """
        if organization.moved_to is not None or not self._source.can_seal:
            return
        moves = await self._target.control.read(control.list_moves)
        number = moves[organization.id].number
        async with (
            self._target.organization(number, organization.id) as tenant,
            self._source.organization(organization.number, organization.id) as database,
        ):
            differing = [] if database is None else await _compare(database, organization, tenant)
        if differing:
            raise ConflictError(
                f"{organization.id} was moved before, and one of the two sides was written to since"
                f" ({', '.join(differing)} differ): nothing was changed. Delete the one that you do"
                " not need; without it at the target, this command copies the source again"
            )
        await self._seal(organization)

    async def _seal(self, organization: OrganizationRow) -> None:
        await self._source.seal(organization.number, organization.id, moved_to=self._address)

    def _now(self) -> int:
        return to_microseconds(self._clock.now())


async def _compare(source: Reader, organization: OrganizationRow, tenant: Tenant) -> list[str]:
    """Return the tables of what users stored that differ between source and target."""
    matched = [
        rows
        for rows in tables.match_tables(
            await source.read(tables.read_columns), await tenant.database.read(tables.read_columns)
        )
        if rows.table.name in _STORED
    ]
    return await _differing(source, organization.number, tenant, matched, advance=lambda _: None)


async def _differing(
    source: Reader, number: int, tenant: Tenant, matched: Sequence[TableRows], *, advance: Advance
) -> list[str]:
    """Return the tables whose rows have other checksums at the source than at the target."""
    expected = await source.read(partial(tables.checksums, tables=matched, number=number))
    copied = await tenant.database.read(
        partial(tables.checksums, tables=matched, number=tenant.number)
    )
    advance(sum(checksum.rows for checksum in copied))
    return [
        rows.table.name
        for rows, one, other in zip(matched, expected, copied, strict=True)
        if one != other
    ]


def _standing(
    organization: OrganizationRow, move: Move | None, present: Sequence[OrganizationRow]
) -> Standing:
    """Return how far an organisation is at a target with the organisations `present`.

    Raises:
        ConflictError: the target has the organisation, and not from a move; or both have a local
            organisation, of which there can be one.
    """
    is_done = move is not None and move.state == "done"
    if any(each.id == organization.id for each in present):
        if is_done:
            return "moved"
        raise ConflictError(
            f"the target has an organisation {organization.id} that was not moved there: move"
            " into another database, or delete that one first"
        )
    for each in present:
        if each.is_local and organization.is_local:
            raise ConflictError(
                f"the target has a local organisation already, {each.id}: delete it there before"
                f" you move {organization.id}"
            )
    # A finished move of an organisation that was deleted since does not count.
    return "new" if move is None or is_done else "begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """The copy of one organisation."""

    source: Reader
    number: int
    """Of the organisation at the source."""
    target: Target
    tenant: Tenant
    """The organisation at the target."""
    now: Callable[[], int]
    advance: Advance
    seal: Callable[..., Awaitable[None]]
    address: str
    """Named by the seal."""

    async def run(self, move: Move) -> None:
        """Copy what is left to copy, and compare everything.

        Raises:
            ConflictError: the source was written to meanwhile, or the databases do not match.
        """
        if move.state == "stale":
            await self.tenant.database.write(partial(tables.clear, number=self.tenant.number))
            move = await self._record(partial(control.restart_move, move=move, now=self.now()))
        matched = tables.match_tables(
            await self.source.read(tables.read_columns),
            await self.tenant.database.read(tables.read_columns),
        )
        names = [rows.table.name for rows in matched]
        first = 0 if move.table is None else names.index(move.table)
        for rows in matched[first:]:
            is_begun = rows.table.name == move.table
            await self._copy_table(rows, after=move.last_key if is_begun else None)
        # Before they are compared: nothing can come after that is not copied.
        await self.seal(moved_to=self.address)
        await self._compare(matched)
        numbers = await self.source.read(partial(tables.last_numbers, number=self.number))
        await self.target.skip_numbers(self.tenant, numbers)

    async def _copy_table(self, rows: TableRows, *, after: Key | None) -> None:
        """Copy the rows after a key; every page is durable before it is recorded."""
        while page := await self.source.read(partial(rows.page, number=self.number, after=after)):
            await self.tenant.database.write(partial(self._insert, rows=rows, page=page))
            after = rows.key_of(page[-1])
            await self._record(
                partial(
                    control.advance_move,
                    organization_id=self.tenant.id,
                    table=rows.table.name,
                    last_key=after,
                    now=self.now(),
                )
            )
            self.advance(len(page))

    def _insert(self, connection: Connection, *, rows: TableRows, page: list[Row]) -> None:
        rows.insert(connection, self.tenant.number, page, is_sqlite=self.target.is_sqlite)

    async def _record(self, change: Callable[[Connection], T]) -> T:
        return await self.target.control.write(change)

    async def _compare(self, matched: Sequence[TableRows]) -> None:
        differing = await _differing(
            self.source, self.number, self.tenant, matched, advance=self.advance
        )
        if differing:
            await self.seal(moved_to=None)
            await self._record(
                partial(control.mark_stale, organization_id=self.tenant.id, now=self.now())
            )
            raise ConflictError(
                f"{self.tenant.id} was written to while it was copied ({', '.join(differing)}):"
                " stop every process that uses the source, and repeat the command, which copies"
                " this organisation again"
            )

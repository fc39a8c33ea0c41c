"""Copy the rows of one organisation, page by page, and prove that both databases have the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engram.errors import ConflictError
from engram.storage.moving.control import Move, advance_move, mark_stale, restart_move
from engram.storage.moving.ports import Target
from engram.storage.moving.rows import Key, Row, TableRows
from engram.storage.moving.sides import Side, agree_on_tables
from engram.storage.moving.tables import TABLES
from engram.storage.rows.database import Connection
from engram.storage.tenant import Tenant

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

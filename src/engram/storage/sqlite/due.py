"""The list of due work of all organisations, in the control file.

A file of an organisation and the control file have no common transaction. Work is noted here, durably, before the
transaction that makes it is committed there, and removed after the one that found nothing left; in between, a token tells
whether work was noted again. So a crash leaves an entry too many at worst. Both happen under the organisation's
write lock or compare the token, and whoever holds the lock of the control file waits for no other.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from engram.model.ids import OrganizationId
from engram.model.status import WORK_KINDS, DueWork, WorkKind
from engram.storage.due import NOW, due_bounds
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.file import SqliteFile
from engram.storage.tenant import Settled

_SQL = load_queries("sqlite/due.sql")
_TOKEN_BITS = 62
_MICROSECOND = timedelta(microseconds=1)


class DueEntries:
    """The `DueList` of one organisation."""

    def __init__(self, control: SqliteFile, organization_id: OrganizationId) -> None:
        self._control = control
        self._id = organization_id

    def note(self, kind: WorkKind, due_at: int) -> None:
        noting = partial(_note, organization_id=self._id, kind=kind, due_at=due_at)
        self._control.write_from_thread(noting)

    async def find(self, kind: WorkKind) -> int | None:
        values = self._values(kind)
        row = await self._control.read(lambda tx: tx.execute(_SQL["get_token"], values).fetchone())
        return None if row is None else row[0]

    async def settle(self, kind: WorkKind, token: int, settled: Settled) -> None:
        name = "remove_due" if settled.due_at is None else "put_due"
        values = {**self._values(kind), "token": token, **settled._asdict()}
        await self._control.write(lambda tx: tx.execute(_SQL[name], values).rowcount)

    def _values(self, kind: WorkKind) -> dict[str, Any]:
        return {"organization_id": self._id, "kind": kind}


def note_all(connection: Connection, organization_id: OrganizationId) -> None:
    """Have every kind of work of an organisation looked for once."""
    for kind in WORK_KINDS:
        _note(connection, organization_id=organization_id, kind=kind, due_at=NOW)


def note_everything(connection: Connection) -> None:
    """Have every kind of work of every organisation looked for once."""
    for (organization_id,) in connection.execute(_SQL["list_with_files"]).fetchall():
        note_all(connection, organization_id)


async def claim_due(
    control: SqliteFile, kinds: Sequence[WorkKind], *, now: int, lease: timedelta, limit: int
) -> list[DueWork]:
    """Lease work that is due; a call that finds none takes no write lock."""
    values = {"kinds": json.dumps(list(kinds)), "limit": limit, **due_bounds(now)}
    if not await control.read(partial(_find, values=values)):
        return []

    def claim(connection: Connection) -> list[DueWork]:
        found = _find(connection, values)
        until = now + lease // _MICROSECOND
        connection.executemany(
            _SQL["claim_due"],
            [{"organization_id": each, "kind": kind, "until": until} for each, kind in found],
        )
        return [DueWork(organization_id=each, kind=kind) for each, kind in found]

    return await control.write(claim)


def _find(connection: Connection, values: dict[str, Any]) -> list[tuple[OrganizationId, WorkKind]]:
    return connection.execute(_SQL["find_due"], values).fetchall()


def _note(
    connection: Connection, *, organization_id: OrganizationId, kind: WorkKind, due_at: int
) -> None:
    values = {"organization_id": organization_id, "kind": kind, "due_at": due_at}
    connection.execute(_SQL["note_due"], {**values, "token": secrets.randbits(_TOKEN_BITS)})

"""Claims of due work at a home: found in all organisations, leased in each with SKIP LOCKED."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from engram.model.status import DueWork, WorkKind
from engram.storage.due import due_bounds
from engram.storage.postgres.homes import Home
from engram.storage.postgres.transactions import ClaimScope
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/due.sql")
_MICROSECOND = timedelta(microseconds=1)


class DueClaims:
    """Claims the due work of some kinds."""

    def __init__(
        self,
        kinds: Sequence[WorkKind],
        *,
        clock: Callable[[Connection], int],
        lease: timedelta,
        limit: int,
    ) -> None:
        self._kinds = kinds
        self._clock = clock
        self._lease = lease // _MICROSECOND
        self._limit = limit

    async def at(self, home: Home) -> list[DueWork]:
        """Lease what is due at a home; work that others claim at the same time is left to them."""
        now, found = await home.control.read(self.find)
        claimed: list[DueWork] = []
        for number in dict.fromkeys(organization for organization, _ in found):
            kinds: list[WorkKind] = [kind for each, kind in found if each == number]
            claim = partial(self._claim, number=number, kinds=kinds, now=now)
            claimed += await home.database_of(ClaimScope(number)).write(claim)
        return claimed

    def find(self, connection: Connection) -> tuple[int, list[tuple[int, WorkKind]]]:
        """Return the time, and the organisations and kinds of the work that is due."""
        now = self._clock(connection)
        values: dict[str, Any] = {"kinds": json.dumps(list(self._kinds)), "limit": self._limit}
        return now, connection.execute(_SQL["find_due"], values | due_bounds(now)).fetchall()

    def _claim(
        self, connection: Connection, *, number: int, kinds: Sequence[WorkKind], now: int
    ) -> list[DueWork]:
        values = {"organization_id": number, "kinds": json.dumps(kinds)}
        locked = connection.execute(_SQL["lock_due"], values | due_bounds(now)).fetchall()
        present = connection.execute(_SQL["find_present"], {"organization_id": number}).fetchone()
        if not locked or present is None:
            return []
        leased = json.dumps([kind for (kind,) in locked])
        until = now + self._lease
        connection.execute(_SQL["lease_locked"], {**values, "kinds": leased, "until": until})
        return [DueWork(organization_id=present[0], kind=kind) for (kind,) in locked]

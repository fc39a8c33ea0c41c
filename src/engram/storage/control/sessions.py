"""Stored sign-ins of browsers: sessions behind cookies, and the one-time links that begin one."""

from __future__ import annotations

from typing import Any, Literal

from engram.clock import Clock, from_microseconds, to_microseconds
from engram.model.access import PageSession
from engram.model.ids import KeyId, OrganizationId
from engram.storage.rows.database import Connection, Database
from engram.storage.rows.queries import load_queries

SecretKind = Literal["link", "session"]

_SQL = load_queries("control/sessions.sql")


class PageSessions:
    """Sign-ins of an installation; a secret is stored as its hash alone."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def add(self, secret_hash: str, session: PageSession, *, kind: SecretKind) -> None:
        """Store a sign-in, and remove those that have ended."""
        values = {
            "secret_hash": secret_hash,
            "kind": kind,
            "organization_id": session.organization_id,
            "key_id": session.key_id,
            "actor": session.actor,
            "operator_hash": session.operator_hash,
            "created_at": to_microseconds(session.created_at),
            "expires_at": to_microseconds(session.expires_at),
        }

        def work(connection: Connection) -> None:
            connection.execute(_SQL["drop_ended"], {"now": self._now()})
            connection.execute(_SQL["add_session"], values)

        await self._database.write(work)

    async def find(self, secret_hash: str) -> PageSession | None:
        """Return a session that has not expired; its key may have ended since."""
        return await self._database.read(
            lambda connection: self._find(connection, secret_hash, kind="session")
        )

    async def redeem(self, secret_hash: str) -> PageSession | None:
        """Return what a link signs in, once: the link is gone afterwards."""

        def work(connection: Connection) -> PageSession | None:
            found = self._find(connection, secret_hash, kind="link")
            if found is not None:
                # Two browsers at once: the one whose statement removes the row has it.
                ended = connection.execute(_SQL["end_session"], {"secret_hash": secret_hash})
                return found if ended.rowcount else None
            return None

        return await self._database.write(work)

    async def choose_organization(
        self, secret_hash: str, organization_id: OrganizationId | None
    ) -> None:
        """Let the operator's session act for an organisation, or for none."""
        values = {"secret_hash": secret_hash, "organization_id": organization_id}
        await self._database.write(
            lambda connection: connection.execute(_SQL["choose_organization"], values)
        )

    async def end(self, secret_hash: str) -> None:
        """Remove a session; one that is gone already is no error."""
        await self._database.write(
            lambda connection: connection.execute(_SQL["end_session"], {"secret_hash": secret_hash})
        )

    def _find(
        self, connection: Connection, secret_hash: str, *, kind: SecretKind
    ) -> PageSession | None:
        values = {"secret_hash": secret_hash, "kind": kind, "now": self._now()}
        row = connection.execute(_SQL["find_session"], values).fetchone()
        return None if row is None else _session_of(row)

    def _now(self) -> int:
        return to_microseconds(self._clock.now())


def _session_of(row: tuple[Any, ...]) -> PageSession:
    organization_id, key_id, actor, operator_hash, created_at, expires_at, key_hash = row
    return PageSession(
        organization_id=None if organization_id is None else OrganizationId(organization_id),
        key_id=None if key_id is None else KeyId(key_id),
        actor=actor,
        operator_hash=operator_hash,
        key_hash=key_hash,
        created_at=from_microseconds(created_at),
        expires_at=from_microseconds(expires_at),
    )

"""Keep organisations, their keys and the audit of both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from engram import limits
from engram.clock import Clock, IdSource, random_text, to_microseconds
from engram.errors import ConflictError, LimitExceededError, NotFoundError
from engram.model.access import (
    ApiKey,
    AuditEntry,
    AuditNote,
    KeyDraft,
    KeyOwner,
    NewKey,
    Organization,
    OrganizationChange,
    OrganizationDraft,
    RotatedKey,
    draft_like,
)
from engram.model.ids import KeyId, OrganizationId
from engram.model.status import UsageDay
from engram.storage.bookkeeping.audited import note_row
from engram.storage.control.key_addresses import note_of
from engram.storage.control.rows import (
    audit_entry_of,
    audit_entry_of_parameters,
    audit_parameters,
    key_of,
    key_owner_of,
    key_parameters,
    organization_of,
    organization_parameters,
    usage_day_of,
    usage_parameters,
)
from engram.storage.rows.database import Connection, Database
from engram.storage.rows.queries import load_queries

_SECRET_START = "engram_sk_live_"  # noqa: S105 - how every secret begins, and no secret
_SECRET_RANDOM_CHARACTERS = 32
_PREFIX_CHARACTERS = 20
_LATEST = 2**63 - 1

_SQL = load_queries("control/control.sql")


class Removal(Protocol):
    """How a database parts with all that an organisation has stored."""

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Take part in the transaction that removes the organisation."""
        ...

    async def finish(self) -> None:
        """Do what is left to do once it is committed."""
        ...


class Reach(Protocol):
    """How a database narrows what a transaction sees of other organisations."""

    def to_organization(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Show the rest of a reading transaction one organisation alone."""
        ...

    def to_secret(self, connection: Connection, secret_hash: str) -> None:
        """Show the rest of a reading transaction one key, and the organisation it belongs to."""
        ...


class WholeReach:
    """Leaves transactions as they are, in a database without row-level security."""

    def to_organization(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Do nothing."""

    def to_secret(self, connection: Connection, secret_hash: str) -> None:
        """Do nothing."""


def tell_nobody(connection: Connection, organization_id: OrganizationId) -> None:
    """Leave it to other processes to see that keys are gone."""


class ControlStore:
    """The `ControlStore` of an installation."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        ids: IdSource,
        removal: Removal,
        tell_keys: Callable[[Connection, OrganizationId], None] = tell_nobody,
        reach: Reach | None = None,
    ) -> None:
        """Keep it in a database; `tell_keys` is part of each transaction that ends keys."""
        self._database = database
        self._reach = reach or WholeReach()
        self._tell_keys = tell_keys
        self._clock = clock
        self._ids = ids
        self._removal = removal

    async def create_organization(
        self, draft: OrganizationDraft, *, actor: str, is_local: bool = False
    ) -> Organization:
        """Store a new organisation.

        Raises:
            ConflictError: `is_local`, and there is a local organisation already.
        """
        organization = Organization(
            id=OrganizationId(self._ids.new("org_")),
            name=draft.name,
            is_local=is_local,
            quota=draft.quota,
            created_at=self._clock.now(),
        )
        audit = self._audit("create_organization", organization.id, actor=actor, name=draft.name)

        def work(connection: Connection) -> None:
            if is_local and connection.execute(_SQL["local_organization"]).fetchone():
                raise ConflictError("there is a local organisation already")
            connection.execute(_SQL["create_organization"], organization_parameters(organization))
            _add_audit(connection, audit)

        await self._database.write(work)
        return organization

    async def local_organization(self) -> Organization | None:
        """Return the organisation that processes of this machine's owner use without a key."""

        def work(connection: Connection) -> Organization | None:
            row = connection.execute(_SQL["local_organization"]).fetchone()
            return None if row is None else organization_of(row)

        return await self._database.read(work)

    async def get_organization(self, organization_id: OrganizationId) -> Organization:
        """Return an organisation.

        Raises:
            NotFoundError: the id is unknown.
        """

        def work(connection: Connection) -> Organization:
            self._reach.to_organization(connection, organization_id)
            return _get_organization(connection, organization_id)

        return await self._database.read(work)

    async def list_organizations(self) -> tuple[Organization, ...]:
        """Return every organisation, oldest first."""

        def work(connection: Connection) -> tuple[Organization, ...]:
            return tuple(map(organization_of, connection.execute(_SQL["list_organizations"])))

        return await self._database.read(work)

    async def change_organization(
        self, organization_id: OrganizationId, change: OrganizationChange, *, actor: str
    ) -> Organization:
        """Give an organisation another name or quota; return it.

        The quota of requests follows from their key, so it holds in every process as soon as a
        revocation would.

        Raises:
            NotFoundError: the id is unknown.
            InvalidRequestError: the new name or quota is not one.
        """
        given: dict[str, Any] = dict(change.given)
        audit = self._audit("change_organization", organization_id, actor=actor, **given)

        def work(connection: Connection) -> Organization:
            changed = change.apply(_get_organization(connection, organization_id))
            connection.execute(_SQL["change_organization"], organization_parameters(changed))
            _add_audit(connection, audit)
            self._tell_keys(connection, organization_id)
            return changed

        return await self._database.write(work)

    async def add_usage(self, used: Mapping[OrganizationId, Sequence[UsageDay]]) -> None:
        """Add to what organisations did by day; the bytes stored replace those of before.

        Days older than `USAGE_DAYS_MAX` before the newest given are removed. Organisations that
        are gone are passed over.
        """
        rows = [
            usage_parameters(organization_id, each)
            for organization_id, days in used.items()
            for each in days
        ]

        def work(connection: Connection) -> None:
            connection.executemany(_SQL["add_usage"], rows)
            connection.executemany(_SQL["drop_usage"], rows)

        await self._database.write(work)

    async def list_usage(
        self, organization_id: OrganizationId, *, limit: int
    ) -> tuple[UsageDay, ...]:
        """Return what an organisation did on the last days that it did anything, newest first."""
        values = {"organization_id": organization_id, "limit": limit}

        def work(connection: Connection) -> tuple[UsageDay, ...]:
            self._reach.to_organization(connection, organization_id)
            return tuple(map(usage_day_of, connection.execute(_SQL["list_usage"], values)))

        return await self._database.read(work)

    async def delete_organization(
        self,
        organization_id: OrganizationId,
        *,
        actor: str,
        details: Mapping[str, object] | None = None,
    ) -> AuditEntry:
        """Remove an organisation, its keys and everything it stored, in every process.

        Returns the audit row, with `details`, the organisation's name and the number of its keys.

        Raises:
            NotFoundError: the id is unknown.
        """
        parameters = {"organization_id": organization_id}

        def work(connection: Connection) -> AuditEntry:
            organization = _get_organization(connection, organization_id)
            keys: int = connection.execute(_SQL["count_keys"], parameters).fetchone()[0]
            self._removal.begin(connection, organization_id)
            connection.execute(_SQL["delete_organization"], parameters)
            self._tell_keys(connection, organization_id)
            note = AuditNote(
                organization_id=organization_id,
                at=self._clock.now(),
                actor=actor,
                action="delete_organization",
                details={"name": organization.name, **(details or {}), "keys": keys},
            )
            audit = audit_parameters(note, audit_id=self._ids.new("aud_"))
            return _add_audit(connection, audit)

        receipt = await self._database.write(work)
        await self._removal.finish()
        return receipt

    async def was_deleted(self, organization_id: OrganizationId) -> bool:
        """Return True if an organisation of that id was here and is deleted, by the audit log."""
        parameters = {"organization_id": organization_id}

        def work(connection: Connection) -> bool:
            return connection.execute(_SQL["find_deletion"], parameters).fetchone() is not None

        return await self._database.read(work)

    async def create_key(
        self, organization_id: OrganizationId, draft: KeyDraft, *, actor: str
    ) -> NewKey:
        """Store a new key's hash and return the key with its secret.

        Raises:
            NotFoundError: there is no such organisation.
            LimitExceededError: the organisation has `KEYS_PER_ORGANIZATION_MAX` live keys.
        """
        new = self._new_key(organization_id, draft)
        audit = self._audit(
            "create_key",
            organization_id,
            actor=actor,
            subject=new.key.id,
            name=draft.name,
            scopes=draft.scopes,
        )

        def work(connection: Connection) -> None:
            _get_organization(connection, organization_id)
            _add_key(connection, new)
            _add_audit(connection, audit)

        await self._database.write(work)
        return new

    async def list_keys(self, organization_id: OrganizationId) -> tuple[ApiKey, ...]:
        """Return the organisation's keys, revoked ones included, oldest first.

        Raises:
            NotFoundError: there is no such organisation.
        """
        parameters = {"organization_id": organization_id}

        def work(connection: Connection) -> tuple[ApiKey, ...]:
            self._reach.to_organization(connection, organization_id)
            _get_organization(connection, organization_id)
            return tuple(map(key_of, connection.execute(_SQL["list_keys"], parameters)))

        return await self._database.read(work)

    async def revoke_key(
        self, organization_id: OrganizationId, key_id: KeyId, *, actor: str
    ) -> ApiKey:
        """Revoke a key; again changes nothing.

        Raises:
            NotFoundError: the organisation has no such key.
        """
        parameters = {
            "organization_id": organization_id,
            "key_id": key_id,
            "revoked_at": to_microseconds(self._clock.now()),
        }
        audit = self._audit("revoke_key", organization_id, actor=actor, subject=key_id)

        def work(connection: Connection) -> ApiKey:
            if connection.execute(_SQL["revoke_key"], parameters).rowcount:
                _add_audit(connection, audit)
                self._tell_keys(connection, organization_id)
            return _get_key(connection, parameters)

        return await self._database.write(work)

    async def rotate_key(
        self, organization_id: OrganizationId, key_id: KeyId, *, overlap: timedelta, actor: str
    ) -> RotatedKey:
        """Make a key like another one, which ends after `overlap` if it would not end before.

        Raises:
            NotFoundError: the organisation has no such key.
            ConflictError: it is revoked or has expired.
            LimitExceededError: the organisation has `KEYS_PER_ORGANIZATION_MAX` live keys.
        """
        now = self._clock.now()
        named = {"organization_id": organization_id, "key_id": key_id}

        def work(connection: Connection) -> RotatedKey:
            old = _get_key(connection, named)
            if not old.is_live(now):
                raise ConflictError("the key is revoked or has expired: make a new one")
            new = self._new_key(organization_id, draft_like(old))
            _add_key(connection, new)
            ends = {**named, "expires_at": to_microseconds(now + overlap)}
            connection.execute(_SQL["end_key"], ends)
            audit = self._audit(
                "rotate_key",
                organization_id,
                actor=actor,
                subject=key_id,
                new_key=new.key.id,
                overlap_s=int(overlap.total_seconds()),
            )
            _add_audit(connection, audit)
            self._tell_keys(connection, organization_id)
            return RotatedKey(new=new, old=_get_key(connection, named))

        return await self._database.write(work)

    async def find_key(self, secret_hash: str) -> KeyOwner | None:
        """Return the key whose secret has that SHA-256, revoked and expired ones included."""

        def work(connection: Connection) -> KeyOwner | None:
            self._reach.to_secret(connection, secret_hash)
            row = connection.execute(_SQL["find_key"], {"secret_hash": secret_hash}).fetchone()
            return None if row is None else key_owner_of(row)

        return await self._database.read(work)

    async def touch_keys(self, used: Mapping[KeyId, datetime]) -> None:
        """Record when keys were last used; never moves a time backwards."""
        rows = [{"key_id": key_id, "at": to_microseconds(at)} for key_id, at in used.items()]

        def work(connection: Connection) -> None:
            connection.executemany(_SQL["touch_key"], rows)

        await self._database.write(work)

    async def note_addresses(self, seen: Mapping[KeyId, Mapping[str, datetime]]) -> None:
        """Record the addresses that keys were used from, and when; audit those that are new.

        Of each key `KEY_ADDRESSES_MAX` addresses are kept, those it was last used from. All that are
        new to a key are one audit row `new_address`. A key that does not exist is passed over.
        """

        def work(connection: Connection) -> None:
            notes = [note_of(connection, key_id, at_by) for key_id, at_by in seen.items()]
            self._add_notes(connection, [note for note in notes if note is not None])

        await self._database.write(work)

    async def record_audit(self, notes: Sequence[AuditNote]) -> None:
        """Write audit rows, all or none."""
        await self._database.write(lambda connection: self._add_notes(connection, notes))

    async def list_audit(
        self, organization_id: OrganizationId | None, *, limit: int, before: datetime | None
    ) -> tuple[AuditEntry, ...]:
        """Return the newest audit rows of keys and organisations, newest first; None is all of them."""
        statement = _SQL["list_all_audit" if organization_id is None else "list_audit"]
        parameters = {
            "organization_id": organization_id,
            "before": _LATEST if before is None else to_microseconds(before),
            "limit": limit,
        }

        def work(connection: Connection) -> tuple[AuditEntry, ...]:
            if organization_id is not None:
                self._reach.to_organization(connection, organization_id)
            return tuple(map(audit_entry_of, connection.execute(statement, parameters)))

        return await self._database.read(work)

    async def ping(self) -> None:
        """Really read the store; raise what a request would meet."""
        await self._database.read(lambda connection: connection.execute(_SQL["ping"]).fetchone())

    def _new_key(self, organization_id: OrganizationId, draft: KeyDraft) -> NewKey:
        secret = _SECRET_START + random_text(_SECRET_RANDOM_CHARACTERS)
        key = ApiKey(
            id=KeyId(self._ids.new("key_")),
            organization_id=organization_id,
            name=draft.name,
            prefix=secret[:_PREFIX_CHARACTERS],
            scopes=draft.scopes,
            toolsets=draft.toolsets,
            created_at=self._clock.now(),
            expires_at=draft.expires_at,
            revoked_at=None,
            last_used_at=None,
        )
        return NewKey(key=key, secret=secret)

    def _add_notes(self, connection: Connection, notes: Sequence[AuditNote]) -> None:
        for note in notes:
            audit_id = self._ids.new("aud_")
            _add_audit(connection, audit_parameters(note, audit_id=audit_id))

    def _audit(
        self,
        action: str,
        organization_id: OrganizationId,
        *,
        actor: str,
        subject: str | None = None,
        **details: object,
    ) -> dict[str, Any]:
        """Return the parameters of an audit row; its subject is the organisation unless named."""
        note = AuditNote(
            organization_id=organization_id,
            at=self._clock.now(),
            actor=actor,
            action=action,
            subject=subject,
            details=details,
        )
        return audit_parameters(note, audit_id=self._ids.new("aud_"))


def hash_secret(secret: str) -> str:
    """Return the form in which a key's secret is stored and looked up."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _add_audit(connection: Connection, values: Mapping[str, Any]) -> AuditEntry:
    connection.execute(_SQL["add_audit"], values)
    entry = audit_entry_of_parameters(values)
    note_row(values["organization_id"], entry)
    return entry


def _get_organization(connection: Connection, organization_id: OrganizationId) -> Organization:
    row = connection.execute(
        _SQL["get_organization"], {"organization_id": organization_id}
    ).fetchone()
    if row is None:
        raise NotFoundError("organization", organization_id)
    return organization_of(row)


def _get_key(connection: Connection, named: Mapping[str, Any]) -> ApiKey:
    row = connection.execute(_SQL["get_key"], named).fetchone()
    if row is None:
        raise NotFoundError("key", named["key_id"])
    return key_of(row)


def _add_key(connection: Connection, new: NewKey) -> None:
    _check_key_count(connection, new.key.organization_id, now=new.key.created_at)
    connection.execute(
        _SQL["create_key"], key_parameters(new.key, secret_hash=hash_secret(new.secret))
    )


def _check_key_count(
    connection: Connection, organization_id: OrganizationId, *, now: datetime
) -> None:
    parameters = {"organization_id": organization_id, "now": to_microseconds(now)}
    live: int = connection.execute(_SQL["count_live_keys"], parameters).fetchone()[0]
    if live >= limits.KEYS_PER_ORGANIZATION_MAX:
        raise LimitExceededError(
            "keys", limit=limits.KEYS_PER_ORGANIZATION_MAX, actual=live + 1, unit="keys"
        )

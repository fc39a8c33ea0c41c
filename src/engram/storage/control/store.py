"""The control database: organisations, their keys and usage, and the audit trail of operators."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from engram import limits
from engram.clock import Clock, IdSource, random_text, to_microseconds
from engram.errors import (
    ConflictError,
    LimitExceededError,
    NotFoundError,
    StoreCorruptError,
    StoreMovedError,
)
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
from engram.model.ids import KEY_PREFIX, KeyId, OrganizationId
from engram.model.status import Finding, KeyDay, UsageDay
from engram.model.value import replace
from engram.storage.bookkeeping.audit import note_row
from engram.storage.bookkeeping.chain import note_appended
from engram.storage.control.rows import (
    Row,
    audit_entry_of,
    audit_parameters,
    hash_key,
    hash_organization,
    key_day_of,
    key_day_parameters,
    key_of,
    key_owner_of,
    key_parameters,
    organization_of,
    organization_parameters,
    proved_key,
    proved_organization,
    usage_day_of,
    usage_parameters,
)
from engram.storage.control.sessions import PageSessions
from engram.storage.rows.database import Connection, Database
from engram.storage.rows.queries import load_queries

T = TypeVar("T")

_SECRET_START = "engram_sk_live_"  # noqa: S105 - how every secret begins, and no secret
_SECRET_RANDOM_CHARACTERS = 32
_PREFIX_CHARACTERS = 20
_LATEST = 2**63 - 1
_CREATED_AT = 6
"""The column of a key's row."""

_SQL = load_queries("control/control.sql")


class Removal(Protocol):
    """How a database deletes everything that an organisation has stored."""

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Take part in the transaction that deletes the organisation."""
        ...

    async def finish(self) -> None:
        """Do the rest once that transaction is committed."""
        ...


class Reach(Protocol):
    """How a database with row-level security narrows a transaction on the control tables."""

    def to_organization(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Hide other organisations from the rest of a reading transaction."""
        ...

    def to_secret(self, connection: Connection, secret_hash: str) -> None:
        """Hide all but one key and its organisation from the rest of a reading transaction."""
        ...


class WholeReach:
    """The `Reach` of a database without row-level security."""

    def to_organization(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Do nothing."""

    def to_secret(self, connection: Connection, secret_hash: str) -> None:
        """Do nothing."""


class Placing(Protocol):
    """How an installation with several databases puts an organisation at one of them."""

    def place(self, connection: Connection, organization_id: OrganizationId, home: str) -> None:
        """Put a new organisation at a home, in the transaction that creates it.

        Raises:
            NotFoundError: there is no such home.
        """
        ...


class OnePlace:
    """The `Placing` of an installation that has no homes."""

    def place(self, connection: Connection, organization_id: OrganizationId, home: str) -> None:
        """Refuse: only PostgreSQL has homes."""
        del connection, organization_id
        raise NotFoundError("home", home)


def tell_nobody(connection: Connection, organization_id: OrganizationId) -> None:
    """Send no notification: other processes read the keys again after a while."""


class ControlStore:
    """Organisations, keys, usage and audit trail of an installation."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        ids: IdSource,
        removal: Removal,
        tell_keys: Callable[[Connection, OrganizationId], None] = tell_nobody,
        reach: Reach | None = None,
        placing: Placing | None = None,
    ) -> None:
        """Use a database; `tell_keys` is called in each transaction that changes or ends keys."""
        self._database = database
        self._reach = reach or WholeReach()
        self._placing = placing or OnePlace()
        self._tell_keys = tell_keys
        self._clock = clock
        self._ids = ids
        self._removal = removal
        self.sessions = PageSessions(database, clock=clock)

    async def create_organization(
        self, draft: OrganizationDraft, *, actor: str, is_local: bool = False
    ) -> Organization:
        """Store a new organisation.

        Raises:
            ConflictError: `is_local`, and there is a local organisation already.
            NotFoundError: the draft names a home that does not exist.
        """
        organization = Organization(
            id=OrganizationId(self._ids.new("org_")),
            name=draft.name,
            is_local=is_local,
            quota=draft.quota,
            created_at=self._clock.now(),
            home=draft.home,
        )
        placed = {} if draft.home is None else {"home": draft.home}
        details = {"name": draft.name, **placed}
        note = self._note("create_organization", organization.id, actor, details)

        def work(connection: Connection) -> None:
            if is_local and connection.execute(_SQL["local_organization"]).fetchone():
                raise ConflictError("there is a local organisation already")
            connection.execute(_SQL["create_organization"], organization_parameters(organization))
            if draft.home is not None:
                self._placing.place(connection, organization.id, draft.home)
            self._add_audit(connection, note)

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
        work = partial(_get_organization, organization_id=organization_id)
        return await self._read_of(organization_id, work)

    async def list_organizations(self) -> tuple[Organization, ...]:
        """Return every organisation, oldest first."""
        rows = await self._database.read(
            lambda connection: connection.execute(_SQL["list_organizations"]).fetchall()
        )
        return tuple(map(organization_of, rows))

    async def change_organization(
        self, organization_id: OrganizationId, change: OrganizationChange, *, actor: str
    ) -> Organization:
        """Change the name or quota of an organisation; return it.

        Other processes apply a new quota as soon as they would notice a revoked key.

        Raises:
            NotFoundError: the id is unknown.
            InvalidRequestError: the new name or quota is invalid.
        """
        note = self._note("change_organization", organization_id, actor, dict(change.given))

        def work(connection: Connection) -> Organization:
            _refuse_moved(connection, organization_id)
            changed = change.apply(_get_organization(connection, organization_id))
            connection.execute(_SQL["change_organization"], organization_parameters(changed))
            self._add_audit(connection, note)
            self._tell_keys(connection, organization_id)
            return changed

        return await self._database.write(work)

    async def add_usage(self, used: Mapping[OrganizationId, Sequence[UsageDay]]) -> None:
        """Add to the daily usage of organisations; the bytes stored replace those of before.

        Days older than `USAGE_DAYS_MAX` before the newest given are removed. Organisations that do
        not exist any more are skipped.
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
        """Return an organisation's last days with any usage, newest first."""
        values = {"organization_id": organization_id, "limit": limit}
        rows = await self._read_of(
            organization_id,
            lambda connection: connection.execute(_SQL["list_usage"], values).fetchall(),
        )
        return tuple(map(usage_day_of, rows))

    async def add_key_usage(self, used: Sequence[KeyDay]) -> None:
        """Add to the daily requests of keys; days that are too old are removed, keys that are gone skipped."""
        rows = list(map(key_day_parameters, used))

        def work(connection: Connection) -> None:
            connection.executemany(_SQL["add_key_usage"], rows)
            connection.executemany(_SQL["drop_key_usage"], rows)

        await self._database.write(work)

    async def list_key_usage(
        self, organization_id: OrganizationId, *, since: date
    ) -> tuple[KeyDay, ...]:
        """Return the requests of an organisation's keys by day, the newest day first."""
        values = {"organization_id": organization_id, "since": since.isoformat()}
        rows = await self._read_of(
            organization_id,
            lambda connection: connection.execute(_SQL["list_key_usage"], values).fetchall(),
        )
        return tuple(map(key_day_of, rows))

    async def delete_organization(
        self,
        organization_id: OrganizationId,
        *,
        actor: str,
        details: Mapping[str, object] | None = None,
    ) -> AuditEntry:
        """Delete an organisation, its keys and everything it stored, in every process.

        Returns the audit entry, with `details`, the organisation's name and the number of its keys.

        Raises:
            NotFoundError: the id is unknown.
        """
        named = {"organization_id": organization_id}

        def work(connection: Connection) -> AuditEntry:
            organization = _get_organization(connection, organization_id)
            keys: int = connection.execute(_SQL["count_keys"], named).fetchone()[0]
            self._removal.begin(connection, organization_id)
            connection.execute(_SQL["delete_organization"], named)
            self._tell_keys(connection, organization_id)
            shown = {"name": organization.name, **(details or {}), "keys": keys}
            note = self._note("delete_organization", organization_id, actor, shown)
            return self._add_audit(connection, note)

        receipt = await self._database.write(work)
        await self._removal.finish()
        return receipt

    async def rewrite(self) -> tuple[str, ...]:
        """Write the control file anew, if it is one: see `Database.rewrite`."""
        return await self._database.rewrite()

    async def was_deleted(self, organization_id: OrganizationId) -> bool:
        """Return True if the audit trail says that an organisation was deleted."""
        named = {"organization_id": organization_id}
        row = await self._database.read(
            lambda connection: connection.execute(_SQL["find_deletion"], named).fetchone()
        )
        return row is not None

    async def create_key(
        self, organization_id: OrganizationId, draft: KeyDraft, *, actor: str
    ) -> NewKey:
        """Store a new key's hash and return the key with its secret.

        Raises:
            NotFoundError: there is no such organisation.
            LimitExceededError: the organisation has `KEYS_PER_ORGANIZATION_MAX` live keys.
        """
        new = self._new_key(organization_id, draft)
        details = {"name": draft.name, "scopes": draft.scopes}
        note = self._note("create_key", organization_id, actor, details, subject=new.key.id)

        def work(connection: Connection) -> None:
            _get_organization(connection, organization_id)
            _refuse_moved(connection, organization_id)
            _add_key(connection, new)
            self._add_audit(connection, note)

        await self._database.write(work)
        return new

    async def list_keys(self, organization_id: OrganizationId) -> tuple[ApiKey, ...]:
        """Return the organisation's keys, revoked ones included, oldest first.

        Raises:
            NotFoundError: there is no such organisation.
        """
        named = {"organization_id": organization_id}

        def work(connection: Connection) -> tuple[ApiKey, ...]:
            _get_organization(connection, organization_id)
            return tuple(map(key_of, connection.execute(_SQL["list_keys"], named)))

        return await self._read_of(organization_id, work)

    async def revoke_key(
        self, organization_id: OrganizationId, key_id: KeyId, *, actor: str
    ) -> ApiKey:
        """Revoke a key; revoking it again changes nothing.

        Raises:
            NotFoundError: the organisation has no such key.
        """
        named = {"organization_id": organization_id, "key_id": key_id}
        now = to_microseconds(self._clock.now())
        note = self._note("revoke_key", organization_id, actor, subject=key_id)

        def work(connection: Connection) -> ApiKey:
            _refuse_moved(connection, organization_id)
            row = _get_key_row(connection, named)
            revoked_at = max(now, row[_CREATED_AT])  # a clock that was set back
            revoked = {"revoked_at": revoked_at, "row_hash": hash_key(row, revoked_at=revoked_at)}
            if connection.execute(_SQL["revoke_key"], {**named, **revoked}).rowcount:
                self._add_audit(connection, note)
                self._tell_keys(connection, organization_id)
            return _get_key(connection, named)

        return await self._database.write(work)

    async def restore_key(
        self, organization_id: OrganizationId, key_id: KeyId, *, within: timedelta, actor: str
    ) -> ApiKey:
        """Make a revoked key work again; one that is not revoked stays as it is.

        Raises:
            NotFoundError: the organisation has no such key.
            ConflictError: it was revoked longer ago than `within`, or has expired.
            LimitExceededError: the organisation has `KEYS_PER_ORGANIZATION_MAX` live keys.
        """
        now = self._clock.now()
        named = {"organization_id": organization_id, "key_id": key_id}
        note = self._note("restore_key", organization_id, actor, subject=key_id)

        def work(connection: Connection) -> ApiKey:
            _refuse_moved(connection, organization_id)
            row = _get_key_row(connection, named)
            key = key_of(row)
            if key.revoked_at is None:
                return key
            restored = replace(key, revoked_at=None)
            if now - key.revoked_at > within or not restored.is_live(now):
                raise ConflictError("the key has ended for good: make a new one")
            _refuse_too_many_keys(connection, organization_id, now=now)
            working = {"row_hash": hash_key(row, revoked_at=None)}
            connection.execute(_SQL["restore_key"], {**named, **working})
            self._add_audit(connection, note)
            self._tell_keys(connection, organization_id)
            return restored

        return await self._database.write(work)

    async def rotate_key(
        self, organization_id: OrganizationId, key_id: KeyId, *, overlap: timedelta, actor: str
    ) -> RotatedKey:
        """Create a copy of a key with a new secret; the old key expires after `overlap` at the latest.

        Raises:
            NotFoundError: the organisation has no such key.
            ConflictError: it is revoked or has expired.
            LimitExceededError: the organisation has `KEYS_PER_ORGANIZATION_MAX` live keys.
        """
        now = self._clock.now()
        named = {"organization_id": organization_id, "key_id": key_id}

        def work(connection: Connection) -> RotatedKey:
            _refuse_moved(connection, organization_id)
            row = _get_key_row(connection, named)
            old = key_of(row)
            if not old.is_live(now):
                raise ConflictError("the key is revoked or has expired: make a new one")
            new = self._new_key(organization_id, draft_like(old))
            _add_key(connection, new)
            expires_at = to_microseconds(now + overlap)
            expiry = {"expires_at": expires_at, "row_hash": hash_key(row, expires_at=expires_at)}
            connection.execute(_SQL["end_key"], {**named, **expiry})
            details = {"new_key": new.key.id, "overlap_s": int(overlap.total_seconds())}
            note = self._note("rotate_key", organization_id, actor, details, subject=key_id)
            self._add_audit(connection, note)
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
        """Record when keys were last used; an earlier time never replaces a later one."""
        rows = [{"key_id": key_id, "at": to_microseconds(at)} for key_id, at in used.items()]
        await self._database.write(
            lambda connection: connection.executemany(_SQL["touch_key"], rows)
        )

    async def note_addresses(self, seen: Mapping[KeyId, Mapping[str, datetime]]) -> None:
        """Record the addresses that keys were used from, and when; audit those that are new.

        The last `KEY_ADDRESSES_MAX` addresses of each key are kept. All new ones of a key are one
        audit row `new_address`. Keys that do not exist are skipped.
        """

        def work(connection: Connection) -> None:
            for key_id, times in seen.items():
                note = _note_addresses(connection, key_id, times)
                if note is not None:
                    self._add_audit(connection, note)

        await self._database.write(work)

    async def record_audit(self, notes: Sequence[AuditNote]) -> None:
        """Write audit rows, all or none."""

        def work(connection: Connection) -> None:
            for note in notes:
                self._add_audit(connection, note)

        await self._database.write(work)

    async def list_audit(
        self, organization_id: OrganizationId | None, *, limit: int, before: datetime | None
    ) -> tuple[AuditEntry, ...]:
        """Return the audit trail of keys and organisations, newest first; None is everybody's."""
        values = {
            "before": _LATEST if before is None else to_microseconds(before),
            "limit": limit,
        }

        def work(connection: Connection, statement: str) -> tuple[AuditEntry, ...]:
            named = {"organization_id": organization_id, **values}
            return tuple(map(audit_entry_of, connection.execute(_SQL[statement], named)))

        if organization_id is None:
            return await self._database.read(partial(work, statement="list_all_audit"))
        return await self._read_of(organization_id, partial(work, statement="list_audit"))

    async def verify(self) -> tuple[Finding, ...]:
        """Return the organisations and keys that are not as they were stored."""

        def work(connection: Connection) -> tuple[Finding, ...]:
            return tuple(_damaged_rows(connection))

        return await self._database.read(work)

    async def count_unhashed(self) -> int:
        """Return how many organisations and keys an older version has stored."""
        return await self._database.read(lambda connection: len(_unhashed_rows(connection)))

    async def hash_rows(self) -> int:
        """Hash the organisations and keys that an older version has stored; return how many."""

        def work(connection: Connection) -> int:
            unhashed = _unhashed_rows(connection)
            for statement, values in unhashed:
                connection.execute(_SQL[statement], values)
            return len(unhashed)

        return await self._database.write(work) if await self.count_unhashed() else 0

    async def ping(self) -> None:
        """Read from the store; raise what a request would raise."""
        await self._database.read(lambda connection: connection.execute(_SQL["ping"]).fetchone())

    async def _read_of(self, organization_id: OrganizationId, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns in a transaction that sees one organisation alone."""

        def narrowed(connection: Connection) -> T:
            self._reach.to_organization(connection, organization_id)
            return work(connection)

        return await self._database.read(narrowed)

    def _new_key(self, organization_id: OrganizationId, draft: KeyDraft) -> NewKey:
        secret = _SECRET_START + random_text(_SECRET_RANDOM_CHARACTERS)
        key = ApiKey(
            id=KeyId(self._ids.new(KEY_PREFIX)),
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

    def _note(
        self,
        action: str,
        organization_id: OrganizationId,
        actor: str,
        details: Mapping[str, object] | None = None,
        *,
        subject: str | None = None,
    ) -> AuditNote:
        return AuditNote(
            organization_id=organization_id,
            at=self._clock.now(),
            actor=actor,
            action=action,
            subject=subject,
            details=details or {},
        )

    def _add_audit(self, connection: Connection, note: AuditNote) -> AuditEntry:
        return add_audit(connection, note, ids=self._ids)


def add_audit(connection: Connection, note: AuditNote, *, ids: IdSource) -> AuditEntry:
    """Write an audit row of the control tables."""
    values = audit_parameters(note, audit_id=ids.new("aud_"))
    connection.execute(_SQL["add_audit"], values)
    note_appended([values["audit_id"].encode()])
    columns = ("audit_id", "at", "actor", "action", "subject", "details")
    entry = audit_entry_of(tuple(values[name] for name in columns))
    note_row(note.organization_id, lambda: entry)
    return entry


def hash_secret(secret: str) -> str:
    """Return the form in which a key's secret is stored and looked up."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _refuse_moved(connection: Connection, organization_id: OrganizationId) -> None:
    """Refuse to change an organisation that was moved to another database.

    Raises:
        StoreMovedError: it was.
    """
    values = {"organization_id": organization_id}
    row = connection.execute(_SQL["find_moved"], values).fetchone()
    if row is not None and row[0] is not None:
        raise StoreMovedError(row[0])


def _get_organization(connection: Connection, organization_id: OrganizationId) -> Organization:
    named = {"organization_id": organization_id}
    row = connection.execute(_SQL["get_organization"], named).fetchone()
    if row is None:
        raise NotFoundError("organization", organization_id)
    return organization_of(proved_organization(row))


def _get_key(connection: Connection, named: Mapping[str, Any]) -> ApiKey:
    return key_of(_get_key_row(connection, named))


def _get_key_row(connection: Connection, named: Mapping[str, Any]) -> Row:
    row = connection.execute(_SQL["get_key"], named).fetchone()
    if row is None:
        raise NotFoundError("key", named["key_id"])
    return proved_key(row)


def _damaged_rows(connection: Connection) -> Iterator[Finding]:
    prove = {"list_organizations": proved_organization, "all_keys": proved_key}
    for statement, proved in prove.items():
        for row in connection.execute(_SQL[statement]):
            try:
                proved(row)
            except StoreCorruptError as exc:
                owner = OrganizationId(row[0] if statement == "list_organizations" else row[1])
                yield Finding(
                    organization_id=owner, check="hashes", message=exc.message, repairable=False
                )


def _unhashed_rows(connection: Connection) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the statements that hash the rows without a hash, with their values."""
    organizations = [
        ("put_organization_hash", {"organization_id": row[0], "row_hash": hash_organization(row)})
        for row in connection.execute(_SQL["list_organizations"])
        if row[-1] is None
    ]
    keys = [
        ("put_key_hash", {"organization_id": row[1], "key_id": row[0], "row_hash": hash_key(row)})
        for row in connection.execute(_SQL["all_keys"])
        if row[-1] is None
    ]
    return [*organizations, *keys]


def _add_key(connection: Connection, new: NewKey) -> None:
    key = new.key
    _refuse_too_many_keys(connection, key.organization_id, now=key.created_at)
    secret_hash = hash_secret(new.secret)
    connection.execute(_SQL["create_key"], key_parameters(key, secret_hash=secret_hash))


def _refuse_too_many_keys(
    connection: Connection, organization_id: OrganizationId, *, now: datetime
) -> None:
    values = {"organization_id": organization_id, "now": to_microseconds(now)}
    live: int = connection.execute(_SQL["count_live_keys"], values).fetchone()[0]
    if live >= limits.KEYS_PER_ORGANIZATION_MAX:
        raise LimitExceededError(
            "keys", limit=limits.KEYS_PER_ORGANIZATION_MAX, actual=live + 1, unit="keys"
        )


def _note_addresses(
    connection: Connection, key_id: KeyId, seen: Mapping[str, datetime]
) -> AuditNote | None:
    """Record where a key was used; return what is to be audited of that, None if nothing is new."""
    row = connection.execute(_SQL["find_owner"], {"key_id": key_id}).fetchone()
    if row is None:
        return None
    named = {"organization_id": row[0], "key_id": key_id}
    rows = {
        address: {**named, "address": address, "at": to_microseconds(at)}
        for address, at in sorted(seen.items())
    }
    new = [
        address
        for address, values in rows.items()
        if connection.execute(_SQL["find_address"], values).fetchone() is None
    ]
    connection.executemany(_SQL["note_address"], list(rows.values()))
    connection.execute(_SQL["forget_addresses"], {**named, "limit": limits.KEY_ADDRESSES_MAX})
    if not new:
        return None
    return AuditNote(
        organization_id=OrganizationId(row[0]),
        at=max(seen[address] for address in new),
        actor=key_id,
        action="new_address",
        subject=key_id,
        details={"addresses": new[: limits.NEW_ADDRESSES_SHOWN], "count": len(new)},
    )

"""The audit trail: who did what in an organisation, written in the transaction that did it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

from engram.clock import from_microseconds, to_microseconds
from engram.model.access import AuditEntry, AuditRecord
from engram.model.ids import OrganizationId, derived_id
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

Announce: TypeAlias = Callable[[Sequence[AuditRecord]], None]
"""Called with audit rows once they are durable, in the thread that wrote them; must not block or raise."""

_SQL = load_queries("bookkeeping/audit.sql")
_END_OF_TIME = 2**63 - 1
_encode = json.JSONEncoder(separators=(",", ":")).encode
Gathered: TypeAlias = Callable[[], AuditRecord]
"""Returns an audit row once it is durable: its time is the database's answer."""

_gathered: ContextVar[list[Gathered] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering(records: list[Gathered] | None) -> Generator[None]:
    """Collect the audit rows written in the block in `records`, unless that is None."""
    token = _gathered.set(records)
    try:
        yield
    finally:
        _gathered.reset(token)


def note_row(organization_id: OrganizationId, entry: Callable[[], AuditEntry]) -> None:
    """Collect a row that was written, if rows are being collected."""
    records = _gathered.get()
    if records is not None:
        records.append(lambda: AuditRecord(organization_id=organization_id, entry=entry()))


def record(
    tx: Transaction,
    *,
    now: int,
    actor: str,
    action: str,
    subject: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> str:
    """Add an audit row and return its id."""
    at = add(tx, now=now, actor=actor, action=action, subject=subject, details=details)
    return _audit_id(tx.tenant, at())


def add(
    tx: Transaction,
    *,
    now: int,
    actor: str,
    action: str,
    subject: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> Callable[[], int]:
    """Add an audit row and return what returns its time; quicker than `record` for those who need no id."""
    details = details or {}
    numbers = _numbers_of(tx, actor=actor, action=action, subject=subject)
    row = tx.row_later(
        _SQL["add_audit"],
        now=now,
        actor=numbers[actor],
        action=numbers[action],
        subject=numbers.get(subject),
        details=_encode(details),
    )
    at = cache(lambda: row()[0])

    def entry() -> AuditEntry:
        return AuditEntry(
            id=_audit_id(tx.tenant, at()),
            at=from_microseconds(at()),
            actor=actor,
            action=action,
            subject=subject,
            details=details,
        )

    note_row(tx.tenant.id, entry)
    return at


def expect(tx: Transaction, *, actor: str, action: str, subject: str | None) -> None:
    """Prepare for an audit row that will be added soon."""
    tx.ask_ahead(_SQL["find_names"], actor=actor, action=action, subject=subject)


async def list_audit(
    tenant: Tenant, *, limit: int, before: datetime | None
) -> tuple[AuditEntry, ...]:
    """Return the newest audit rows older than `before`, newest first."""
    bound = _END_OF_TIME if before is None else to_microseconds(before)
    rows = await tenant.read(
        lambda tx: tx.execute(_SQL["list_audit"], before=bound, limit=limit).fetchall()
    )
    return tuple(
        AuditEntry(
            id=_audit_id(tenant, at),
            at=from_microseconds(at),
            actor=actor,
            action=action,
            subject=subject,
            details=json.loads(details),
        )
        for at, actor, action, subject, details in rows
    )


def _numbers_of(
    tx: Transaction, *, actor: str, action: str, subject: str | None
) -> dict[str | None, int]:
    """Return the numbers of names, and give numbers to new ones."""
    found = tx.execute(_SQL["find_names"], actor=actor, action=action, subject=subject)
    numbers: dict[str | None, int] = dict(found.fetchall())
    for name in (actor, action, subject):
        if name is not None and name not in numbers:
            (numbers[name],) = tx.execute(_SQL["add_name"], name=name).fetchone()
    return numbers


def _audit_id(tenant: Tenant, at: int) -> str:
    """Return the id of the row written at `at`: no two rows of an organisation share that time."""
    return derived_id("aud_", f"{tenant.id}:{at}")

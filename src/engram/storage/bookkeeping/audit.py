"""Write down who did what in an organisation, in the transaction that did it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engram.clock import from_microseconds, to_microseconds
from engram.model.access import AuditEntry
from engram.model.ids import derived_id
from engram.storage.bookkeeping.audited import is_wanted, note_row
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("bookkeeping/audit.sql")
_END_OF_TIME = 2**63 - 1


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
    details = details or {}
    row = tx.execute(
        _SQL["add_audit"],
        now=now,
        actor=_number_of(tx, actor),
        action=_number_of(tx, action),
        subject=None if subject is None else _number_of(tx, subject),
        details=json.dumps(details, separators=(",", ":")),
    ).fetchone()
    audit_id = _audit_id(tx.tenant, row[0])
    if is_wanted():
        entry = AuditEntry(
            id=audit_id,
            at=from_microseconds(row[0]),
            actor=actor,
            action=action,
            subject=subject,
            details=details,
        )
        note_row(tx.tenant.id, entry)
    return audit_id


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


def _number_of(tx: Transaction, name: str) -> int:
    row = tx.execute(_SQL["find_name"], name=name).fetchone()
    if row is None:
        row = tx.execute(_SQL["add_name"], name=name).fetchone()
    return row[0]


def _audit_id(tenant: Tenant, at: int) -> str:
    """Return the id of the row written at `at`, which no other row of the organisation shares."""
    return derived_id("aud_", f"{tenant.id}:{at}")

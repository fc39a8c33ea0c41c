"""Remember the addresses that keys were last used from, and tell which are new."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from engram import limits
from engram.clock import to_microseconds
from engram.model.access import AuditNote
from engram.model.ids import KeyId, OrganizationId
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("control/control.sql")


def note_of(
    connection: Connection, key_id: KeyId, seen: Mapping[str, datetime]
) -> AuditNote | None:
    """Record where a key was used; return what is to be audited of that, None if nothing is new."""
    row = connection.execute(_SQL["find_owner"], {"key_id": key_id}).fetchone()
    if row is None:
        return None
    named = {"organization_id": row[0], "key_id": key_id}
    new = [
        address
        for address in sorted(seen)
        if connection.execute(_SQL["find_address"], {**named, "address": address}).fetchone()
        is None
    ]
    rows = [
        {**named, "address": address, "at": to_microseconds(at)} for address, at in seen.items()
    ]
    connection.executemany(_SQL["note_address"], rows)
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

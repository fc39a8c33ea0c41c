"""Convert rows of the control tables to values, and values to parameters of statements."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, cast

import orjson

from engram import limits
from engram.clock import from_microseconds, to_microseconds
from engram.model.access import (
    ApiKey,
    AuditEntry,
    AuditNote,
    KeyOwner,
    KeyScope,
    Organization,
    Quota,
    Toolset,
)
from engram.model.ids import KeyId, OrganizationId
from engram.model.status import KeyDay, UsageDay
from engram.storage.bookkeeping.row_hashes import damaged, hashed_table

Row = tuple[Any, ...]

_KEY_NAMES = (
    "key_id",
    "organization_id",
    "name",
    "prefix",
    "scopes",
    "toolsets",
    "created_at",
    "expires_at",
    "revoked_at",
    "last_used_at",
    "secret_hash",
    "row_hash",
)
_ORGANIZATION_NAMES = (
    "organization_id",
    "name",
    "is_local",
    "messages_max",
    "bytes_max",
    "created_at",
    "home",
    "row_hash",
)

_ORGANIZATION = hashed_table(
    "organization",
    key="organization_id",
    columns="is_local messages_max bytes_max created_at organization_id:text name:text",
)
_KEY = hashed_table(
    "api_key",
    key="key_id",
    columns=(
        "created_at expires_at revoked_at key_id:text organization_id:text name:text "
        "secret_hash:text prefix:text scopes:text toolsets:text"
    ),
)
"""Without `last_used_at`, which is written at most once a minute by every process."""


def organization_of(row: Row) -> Organization:
    """Return the organisation in a row of `get_organization` and its like."""
    organization_id, name, is_local, messages_max, bytes_max, created_at, home, _ = row
    return Organization(
        id=OrganizationId(organization_id),
        name=name,
        is_local=bool(is_local),
        quota=Quota(messages_max=messages_max, bytes_max=bytes_max),
        created_at=from_microseconds(created_at),
        home=home,
    )


def key_of(row: Row) -> ApiKey:
    """Return the key in a row of `get_key` and its like."""
    key_id, organization_id, name, prefix, scopes, toolsets, *times = row
    created, expires, revoked, last_used, _, _ = times
    return ApiKey(
        id=KeyId(key_id),
        organization_id=OrganizationId(organization_id),
        name=name,
        prefix=prefix,
        scopes=cast("tuple[KeyScope, ...]", tuple(scopes.split(" "))),
        toolsets=_toolsets(toolsets),
        created_at=from_microseconds(created),
        expires_at=_time(expires),
        revoked_at=_time(revoked),
        last_used_at=_time(last_used),
    )


def key_owner_of(row: Row) -> KeyOwner:
    """Return the key and the organisation in a row of `find_key`.

    Raises:
        StoreCorruptError: one of them is not as it was stored: a scope or a quota may be another.
    """
    key, organization = row[: len(_KEY_NAMES)], row[len(_KEY_NAMES) :]
    return KeyOwner(
        key=key_of(proved_key(key)), organization=organization_of(proved_organization(organization))
    )


def proved_key(row: Row) -> Row:
    """Return a row of `get_key` if it is as it was stored.

    Raises:
        StoreCorruptError: it is not.
    """
    if row[-1] not in (None, hash_key(row)):
        raise damaged(f"api_key {row[0]}")
    return row


def proved_organization(row: Row) -> Row:
    """Return a row of `get_organization` if it is as it was stored.

    Raises:
        StoreCorruptError: it is not.
    """
    if row[-1] not in (None, hash_organization(row)):
        raise damaged(f"organization {row[0]}")
    return row


def hash_key(row: Row, **changed: Any) -> bytes:
    """Return the hash of a key's row, with other values of some columns."""
    values = dict(zip(_KEY_NAMES, row, strict=True)) | changed
    return _KEY.hash(values["organization_id"], values)


def hash_organization(row: Row) -> bytes:
    """Return the hash of an organisation's row."""
    values: dict[str, Any] = dict(zip(_ORGANIZATION_NAMES, row, strict=True))
    return _ORGANIZATION.hash(values["organization_id"], values)


def audit_entry_of(row: Row) -> AuditEntry:
    """Return the entry in a row of an audit table."""
    audit_id, at, actor, action, subject, details = row
    return AuditEntry(
        id=audit_id,
        at=from_microseconds(at),
        actor=actor,
        action=action,
        subject=subject,
        details=orjson.loads(details),
    )


def audit_parameters(note: AuditNote, *, audit_id: str) -> dict[str, Any]:
    """Return the values of an audit row; its subject is the organisation unless one is named."""
    return {
        "audit_id": audit_id,
        "organization_id": note.organization_id,
        "at": to_microseconds(note.at),
        "actor": note.actor,
        "action": note.action,
        "subject": note.subject or note.organization_id,
        "details": orjson.dumps(note.details).decode(),
    }


def organization_parameters(organization: Organization) -> dict[str, Any]:
    """Return the parameters of `create_organization`."""
    values = {
        "organization_id": organization.id,
        "name": organization.name,
        "is_local": int(organization.is_local),
        "messages_max": organization.quota.messages_max,
        "bytes_max": organization.quota.bytes_max,
        "created_at": to_microseconds(organization.created_at),
    }
    return {**values, "row_hash": _ORGANIZATION.hash(organization.id, values)}


def usage_parameters(organization_id: OrganizationId, used: UsageDay) -> dict[str, Any]:
    """Return the parameters of `add_usage` and `drop_usage`."""
    return {
        "organization_id": organization_id,
        "day": used.day.isoformat(),
        "oldest": _oldest(used.day),
        "requests": used.requests,
        "searches": used.searches,
        "messages": used.messages,
        "embedded_texts": used.embedded_texts,
        "bytes_stored": used.stored_bytes,
    }


def usage_day_of(row: Row) -> UsageDay:
    """Return the day in a row of `list_usage`."""
    day, requests, searches, messages, embedded_texts, stored_bytes = row
    return UsageDay(
        day=date.fromisoformat(day),
        requests=requests,
        searches=searches,
        messages=messages,
        embedded_texts=embedded_texts,
        stored_bytes=stored_bytes,
    )


def key_day_parameters(used: KeyDay) -> dict[str, Any]:
    """Return the parameters of `add_key_usage` and `drop_key_usage`."""
    return {
        "key_id": used.key_id,
        "day": used.day.isoformat(),
        "oldest": _oldest(used.day),
        "requests": used.requests,
    }


def key_day_of(row: Row) -> KeyDay:
    """Return the day in a row of `list_key_usage`."""
    key_id, day, requests = row
    return KeyDay(key_id=KeyId(key_id), day=date.fromisoformat(day), requests=requests)


def _oldest(day: date) -> str:
    """Return the first day that is kept beside this one."""
    return (day - timedelta(days=limits.USAGE_DAYS_MAX)).isoformat()


def key_parameters(key: ApiKey, *, secret_hash: str) -> dict[str, Any]:
    """Return the parameters of `create_key`."""
    values = {
        "key_id": key.id,
        "organization_id": key.organization_id,
        "name": key.name,
        "secret_hash": secret_hash,
        "prefix": key.prefix,
        "scopes": " ".join(key.scopes),
        "toolsets": None if key.toolsets is None else " ".join(key.toolsets),
        "created_at": to_microseconds(key.created_at),
        "expires_at": None if key.expires_at is None else to_microseconds(key.expires_at),
    }
    return {**values, "row_hash": _KEY.hash(key.organization_id, {**values, "revoked_at": None})}


def _toolsets(value: str | None) -> tuple[Toolset, ...] | None:
    return None if value is None else cast("tuple[Toolset, ...]", tuple(value.split(" ")))


def _time(value: int | None) -> datetime | None:
    return None if value is None else from_microseconds(value)

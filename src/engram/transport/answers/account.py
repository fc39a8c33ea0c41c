"""What an organisation sees of itself: keys, status, usage and audit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.access import AccountDeletion, ApiKey, AuditEntry, NewKey, RotatedKey
from engram.model.status import Counters, Status, Usage, UsageDay


class KeyView(TypedDict):
    id: str
    name: str
    prefix: str
    scopes: list[str]
    toolsets: list[str] | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class KeyCreated(KeyView):
    key: str


class KeyRotated(KeyCreated):
    replaces: str
    """The id of the key that ends."""
    replaced_expires_at: str | None


class AccountDeleted(TypedDict):
    deleted: Literal[True]
    organization_id: str
    receipt: str
    deleted_at: str
    removed: Mapping[str, int]


class KeysListed(TypedDict):
    keys: list[KeyView]


class StatusView(TypedDict):
    conversations: int
    messages: int
    memories: int
    documents: int
    content_bytes: int
    chunks: int
    vectors: int
    pending: int
    embedder: str | None
    degraded: list[str]


class UsageView(TypedDict):
    messages: int
    messages_max: int | None
    content_bytes: int
    stored_bytes: int
    """Everything that counts towards `bytes_max`."""
    bytes_max: int | None
    days: list[UsageDayView]
    """The newest first."""


class UsageDayView(TypedDict):
    day: str
    """In UTC, as in 2026-01-31."""
    requests: int
    searches: int
    embedded_texts: int
    bytes: int
    """Everything that counted towards `bytes_max` when the day was last written down."""


class AuditView(TypedDict):
    id: str
    at: str
    actor: str
    action: str
    subject: str | None
    details: Mapping[str, Any]


class AuditListed(TypedDict):
    entries: list[AuditView]


def key_view(key: ApiKey) -> KeyView:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": list(key.scopes),
        "toolsets": None if key.toolsets is None else list(key.toolsets),
        "created_at": format_time(key.created_at),
        "expires_at": _optional_time(key.expires_at),
        "revoked_at": _optional_time(key.revoked_at),
        "last_used_at": _optional_time(key.last_used_at),
    }


def key_created(new: NewKey) -> KeyCreated:
    return {**key_view(new.key), "key": new.secret}


def key_rotated(rotated: RotatedKey) -> KeyRotated:
    return {
        **key_created(rotated.new),
        "replaces": rotated.old.id,
        "replaced_expires_at": _optional_time(rotated.old.expires_at),
    }


def account_deleted(deleted: AccountDeletion) -> AccountDeleted:
    return {
        "deleted": True,
        "organization_id": deleted.organization_id,
        "receipt": deleted.receipt,
        "deleted_at": format_time(deleted.deleted_at),
        "removed": deleted.removed,
    }


def status_view(status: Status) -> StatusView:
    counters: Counters = status.counters
    return {
        "conversations": counters.conversations,
        "messages": counters.messages_of_conversations,
        "memories": counters.memories,
        "documents": counters.documents,
        "content_bytes": counters.content_bytes,
        "chunks": counters.chunks,
        "vectors": counters.vectors,
        "pending": counters.pending,
        "embedder": status.embedder,
        "degraded": list(status.degraded),
    }


def usage_view(usage: Usage) -> UsageView:
    return {
        "messages": usage.messages,
        "messages_max": usage.quota.messages_max,
        "content_bytes": usage.content_bytes,
        "stored_bytes": usage.stored_bytes,
        "bytes_max": usage.quota.bytes_max,
        "days": [usage_day_view(each) for each in usage.days],
    }


def usage_day_view(used: UsageDay) -> UsageDayView:
    return {
        "day": used.day.isoformat(),
        "requests": used.requests,
        "searches": used.searches,
        "embedded_texts": used.embedded_texts,
        "bytes": used.stored_bytes,
    }


def audit_view(entry: AuditEntry) -> AuditView:
    return {
        "id": entry.id,
        "at": format_time(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "details": entry.details,
    }


def _optional_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)

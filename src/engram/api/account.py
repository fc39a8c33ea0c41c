"""Operations on the caller's own organisation: keys, status, usage, audit trail and deletion."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import asdict

from engram import limits
from engram.api.operation import KeyOperation, Operation, Route
from engram.model.access import (
    KEY_OVERLAP_S,
    AccountDeletion,
    ApiKey,
    AuditEntry,
    KeyDraft,
    KeyUsage,
    Principal,
    choose_toolsets,
)
from engram.model.fields import Between
from engram.model.ids import KeyId
from engram.model.request import Request
from engram.model.status import Counters, UsageDay
from engram.model.value import Value, derived, replace

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "account"


class EmptyRequest(Request):
    """A request without fields."""


class KeyReference(Request):
    """Names one key."""

    key_id: KeyId


class KeyRotation(Request):
    """The key to replace, and how long it stays valid."""

    key_id: KeyId
    overlap_s: Annotated[int, Between(0, limits.KEY_OVERLAP_S_MAX)] = KEY_OVERLAP_S


class UsageQuery(Request):
    """How many days of usage to list."""

    days: Annotated[int, Between(1, limits.USAGE_DAYS_MAX)] = 30


class AuditQuery(Request):
    """Selects audit entries."""

    limit: Annotated[int, Between(1, limits.AUDIT_PAGE_MAX)] = 100
    before: datetime | None = None


class AccountEnd(Request):
    """Confirms the organisation to delete."""

    organization: Annotated[str, "The organisation's name, to be sure."]


class KeysListed(Value):
    """The keys of an organisation."""

    keys: tuple[ApiKey, ...]


class KeysUsed(Value):
    """Requests of keys by day."""

    keys: tuple[KeyUsage, ...]


class KeyCreated(ApiKey):
    """A new key with its secret, which is shown only now."""

    key: str


class KeyRotated(KeyCreated):
    """A new key, and the id and expiry of the one it replaces."""

    replaces: KeyId
    replaced_expires_at: datetime | None


class StatusView(Value):
    """Counts of what is stored, and the state of search."""

    conversations: int
    messages: int
    memories: int
    documents: int
    content_bytes: int
    chunks: int
    vectors: int
    pending: int
    """Texts that wait for deep vectors."""
    pending_since: datetime | None
    """When the oldest of them was stored, as far as the ends of the queue tell; null if none waits."""
    embedder: str | None
    degraded: tuple[str, ...]
    scrubbed_at: datetime | None
    """When everything stored was last read and proved in the background."""
    faults: int
    """Damaged rows and contents that were found then; `engram doctor` names them."""


class UsageDayView(Value):
    """Usage on one day."""

    day: str
    """In UTC, as in 2026-01-31."""
    requests: int
    searches: int
    messages: int
    """Appended and captured."""
    embedded_texts: int
    bytes: int
    """Everything that counted towards `bytes_max` when the day was last recorded."""


class UsageView(Value):
    """Usage against the quota, and by day."""

    messages: int
    messages_max: int | None
    content_bytes: int
    stored_bytes: int
    """Everything that counts towards `bytes_max`."""
    bytes_max: int | None
    days: tuple[UsageDayView, ...]
    """The newest first."""


class AuditListed(Value):
    """Audit entries, newest first."""

    entries: tuple[AuditEntry, ...]


async def list_keys(service: Service, principal: Principal, _: EmptyRequest) -> KeysListed:
    return KeysListed(keys=tuple(await service.access.list_keys(principal)))


async def create_key(service: Service, principal: Principal, request: KeyDraft) -> KeyCreated:
    toolsets = None if request.toolsets is None else choose_toolsets(request.toolsets)
    draft = replace(request, scopes=tuple(dict.fromkeys(request.scopes)), toolsets=toolsets)
    new = await service.access.create_key(principal, draft)
    return KeyCreated(**asdict(new.key), key=new.secret)


async def rotate_key(service: Service, principal: Principal, request: KeyRotation) -> KeyRotated:
    rotated = await service.access.rotate_key(
        principal, request.key_id, overlap_s=request.overlap_s
    )
    return KeyRotated(
        **asdict(rotated.new.key),
        key=rotated.new.secret,
        replaces=rotated.old.id,
        replaced_expires_at=rotated.old.expires_at,
    )


async def status(service: Service, principal: Principal, _: EmptyRequest) -> StatusView:
    found = await service.account.status(principal)
    return StatusView(
        **shown_counters(found.counters),
        documents=found.counters.documents,
        pending_since=found.pending_since,
        embedder=found.embedder,
        degraded=found.degraded,
        scrubbed_at=found.scrub.finished_at,
        faults=found.scrub.faults,
    )


def shown_counters(counters: Counters) -> dict[str, int]:
    """Return the counters shown to people: messages without the texts of memories."""
    names = ("conversations", "memories", "content_bytes", "chunks", "vectors", "pending")
    own = {name: getattr(counters, name) for name in names}
    return {**own, "messages": counters.messages_of_conversations}


async def usage(service: Service, principal: Principal, request: UsageQuery) -> UsageView:
    used = await service.account.usage(principal, days=request.days)
    return derived(UsageView, used, used.quota, days=tuple(map(_day, used.days)))


def _day(used: UsageDay) -> UsageDayView:
    return derived(UsageDayView, used, day=used.day.isoformat(), bytes=used.stored_bytes)


async def audit(service: Service, principal: Principal, request: AuditQuery) -> AuditListed:
    entries = await service.account.audit(principal, limit=request.limit, before=request.before)
    return AuditListed(entries=entries)


async def key_usage(service: Service, principal: Principal, request: UsageQuery) -> KeysUsed:
    return KeysUsed(keys=await service.access.key_usage(principal, days=request.days))


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="list_keys",
        description="List the organisation's keys; their secrets are not kept.",
        request=EmptyRequest,
        answer=KeysListed,
        run=list_keys,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="GET", path="/api/v1/keys"),),
    ),
    Operation(
        name="create_key",
        description="Make a key; `key` is shown this once.",
        request=KeyDraft,
        answer=KeyCreated,
        run=create_key,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/keys", status=201),),
    ),
    Operation(
        name="revoke_key",
        description="Revoke a key; it stops working everywhere within one second.",
        request=KeyReference,
        answer=ApiKey,
        run=lambda service, me, request: service.access.revoke_key(me, request.key_id),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="DELETE", path="/api/v1/keys/{key_id}"),),
    ),
    Operation(
        name="restore_key",
        description="Make a key work again that was revoked in the last ten minutes.",
        request=KeyReference,
        answer=ApiKey,
        run=lambda service, me, request: service.access.restore_key(me, request.key_id),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/keys/{key_id}/restore"),),
    ),
    Operation(
        name="rotate_key",
        description="Make a key like this one, which goes on working for a while; `key` is shown"
        " this once.",
        request=KeyRotation,
        answer=KeyRotated,
        run=rotate_key,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/keys/{key_id}/rotate", status=201),),
    ),
    Operation(
        name="status",
        description="Say what is stored and how it is searched.",
        request=EmptyRequest,
        answer=StatusView,
        run=status,
        group=GROUP,
        scopes=("read",),
        routes=(Route(method="GET", path="/api/v1/status"),),
    ),
    Operation(
        name="key_usage",
        description="Count the requests of each key by day.",
        request=UsageQuery,
        answer=KeysUsed,
        run=key_usage,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="GET", path="/api/v1/keys/usage"),),
    ),
    Operation(
        name="usage",
        description="Return what is used of the quota, and what was done by day, at most a minute"
        " old.",
        request=UsageQuery,
        answer=UsageView,
        run=usage,
        group=GROUP,
        scopes=("read",),
        routes=(Route(method="GET", path="/api/v1/usage"),),
    ),
    Operation(
        name="audit",
        description="List who did what and when, newest first.",
        request=AuditQuery,
        answer=AuditListed,
        run=audit,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="GET", path="/api/v1/audit"),),
    ),
    Operation(
        name="delete_account",
        description="Remove the organisation of that name with its keys and everything it stored.",
        request=AccountEnd,
        answer=AccountDeletion,
        run=lambda service, me, request: service.account.delete_account(
            me, organization=request.organization
        ),
        group=GROUP,
        scopes=("admin", "delete"),
        routes=(Route(method="DELETE", path="/api/v1/account", body="json"),),
    ),
)

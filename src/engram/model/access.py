"""Principals, API keys, organisations, quotas and audit entries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from msgspec import UNSET, UnsetType

from engram.errors import (
    AccessDeniedError,
    InvalidRequestError,
    QuotaExceededError,
    ToolsetDeniedError,
)
from engram.model.fields import Count, Length, Name
from engram.model.ids import KeyId, OrganizationId
from engram.model.request import Request
from engram.model.toolsets import Toolset
from engram.model.value import INTERNAL, UNLISTED, Value, replace

KeyScope = Literal["read", "write", "search", "delete", "admin"]
KEY_SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)

KEY_PREFIX = "engram_sk_live_"
"""Prefix of every secret, so that secret scanners recognise a leaked one."""

KEY_OVERLAP_S = 86_400
"""How long a rotated key stays valid by default: a day to deploy its successor."""

OPERATOR = "operator"
"""The actor in audit entries for calls with the operator's token."""

LOCAL = "local"
"""The actor in audit entries for local calls without a key."""


class Quota(Value):
    """How much an organisation may store; None means unlimited."""

    messages_max: int | None = None
    bytes_max: int | None = None

    @property
    def is_unbounded(self) -> bool:
        """Return True if nothing is limited."""
        return self.messages_max is None and self.bytes_max is None

    def check(self, use: Use, *, added: Use) -> None:
        """Reject usage above the quota; a call that adds nothing is never rejected.

        Raises:
            QuotaExceededError: `use` plus `added` exceeds a limit.
        """
        _check_bound("messages", self.messages_max, used=use.messages, needed=added.messages)
        _check_bound("bytes", self.bytes_max, used=use.stored_bytes, needed=added.stored_bytes)


UNBOUNDED = Quota()

QuotaWarning = Annotated[str | None, UNLISTED]
"""In an answer to a write: set when the organisation has used most of its quota."""


class Use(NamedTuple):
    """The resources that a quota limits."""

    messages: int
    stored_bytes: int


def _check_bound(resource: str, bound: int | None, *, used: int, needed: int) -> None:
    if bound is not None and needed > 0 and used + needed > bound:
        raise QuotaExceededError(resource=resource, limit=bound, used=used, needed=needed)


class Principal(Value):
    """The authenticated caller: the only source of a request's organisation."""

    organization_id: OrganizationId
    actor: str
    """The key's id, or `local` for a local process without a key."""
    scopes: frozenset[KeyScope]
    quota: Quota = Quota()
    toolsets: tuple[Toolset, ...] | None = None
    """The toolsets the credential may use; None means every one."""
    auto_episode: bool = False
    """True if its connection wants memories without an episode to belong to one of its own."""

    def allows(self, scope: KeyScope) -> bool:
        """Return True if the credential carries `scope`."""
        return scope in self.scopes

    def require(self, *scopes: KeyScope) -> None:
        """Reject the call unless the credential carries all of `scopes`.

        Raises:
            AccessDeniedError: a scope is missing.
        """
        for scope in scopes:
            if scope not in self.scopes:
                raise AccessDeniedError(scope)

    def require_toolset(self, toolset: Toolset) -> None:
        """Reject the call unless the credential may use `toolset`.

        Raises:
            ToolsetDeniedError: the credential is limited to other toolsets.
        """
        if self.toolsets is not None and toolset not in self.toolsets:
            raise ToolsetDeniedError(toolset)


class Organization(Value):
    """A tenant."""

    id: OrganizationId
    name: str
    is_local: bool
    quota: Quota
    created_at: datetime


class OrganizationChange(Request):
    """Changes to a tenant: an omitted field stays, null removes a limit."""

    needs_a_field: ClassVar = True

    name: Name | None = None
    messages_max: Count | UnsetType | None = UNSET
    bytes_max: Count | UnsetType | None = UNSET

    def check(self) -> None:
        if not self.given:
            raise InvalidRequestError(
                "at least one of name, messages_max and bytes_max is required"
            )

    @property
    def given(self) -> dict[str, Any]:
        """Return the fields to change."""
        bounds = {"messages_max": self.messages_max, "bytes_max": self.bytes_max}
        named = {} if self.name is None else {"name": self.name}
        return named | {name: bound for name, bound in bounds.items() if bound is not UNSET}

    def apply(self, organization: Organization) -> Organization:
        """Return the organisation with the changes applied."""
        bounds = self.given
        name = bounds.pop("name", organization.name)
        return replace(organization, name=name, quota=replace(organization.quota, **bounds))


class OrganizationDraft(Request):
    """A tenant to create."""

    name: Name
    messages_max: Count | None = None
    bytes_max: Count | None = None

    @property
    def quota(self) -> Quota:
        """Return the quota that the fields describe."""
        return Quota(messages_max=self.messages_max, bytes_max=self.bytes_max)


class KeyDraft(Request):
    """A key to create."""

    name: Name
    scopes: Annotated[tuple[KeyScope, ...], Length(1)] = KEY_SCOPES
    toolsets: Annotated[tuple[Toolset, ...], Length(1)] | None = None
    """The toolsets it may use; None means every one, of which clients see the configured ones."""
    expires_at: datetime | None = None


class ApiKey(Value):
    """A key without its secret, which is shown once and never stored."""

    id: KeyId
    organization_id: Annotated[OrganizationId, INTERNAL]
    name: str
    prefix: str
    scopes: tuple[KeyScope, ...]
    toolsets: tuple[Toolset, ...] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def is_live(self, now: datetime) -> bool:
        """Return True if the key is neither revoked nor expired at `now`."""
        is_expired = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_expired


def draft_like(key: ApiKey) -> KeyDraft:
    """Return a draft with the name, scopes, toolsets and expiry of `key`."""
    return KeyDraft(
        name=key.name, scopes=key.scopes, toolsets=key.toolsets, expires_at=key.expires_at
    )


class NewKey(Value):
    """A new key with its secret, which is shown only now."""

    key: ApiKey
    secret: str


class RotatedKey(Value):
    """A new key, and the key it replaces with its new expiry."""

    new: NewKey
    old: ApiKey


class KeyOwner(Value):
    """A key found by the hash of its secret, with its organisation."""

    key: ApiKey
    organization: Organization


class AuditEntry(Value):
    """Who did what and when; never the content."""

    id: str
    at: datetime
    actor: str
    action: str
    subject: str | None
    details: Mapping[str, Any]


class AuditNote(Value):
    """An audit entry to write; its subject is the organisation unless another is named."""

    organization_id: OrganizationId
    at: datetime
    actor: str
    action: str
    subject: str | None = None
    details: Mapping[str, Any]


class AccountDeletion(Value):
    """The receipt of a deleted organisation; the audit trail has the same entry under its id."""

    receipt: str
    organization_id: OrganizationId
    deleted_at: datetime
    removed: Mapping[str, int]
    """Counts of conversations, messages, memories, documents, content bytes and keys."""
    deleted: Literal[True] = True


class AuditRecord(Value):
    """An audit entry with its organisation."""

    organization_id: OrganizationId
    entry: AuditEntry

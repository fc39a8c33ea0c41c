"""Principals, API keys, toolsets, organisations, quotas and audit entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeGuard, get_args

from msgspec import UNSET, UnsetType

from engram import errors
from engram.model.erasure import BackupNote
from engram.model.fields import Count, HomeName, Length, Name
from engram.model.ids import KeyId, OrganizationId
from engram.model.request import Request
from engram.model.value import INTERNAL, UNLISTED, Value, derived, replace

Toolset = Literal["conversations", "notes", "memories", "maintenance"]
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)

DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("conversations", "notes")
"""Used if neither the connection, nor the key, nor the setting names any."""


def choose_toolsets(names: Collection[str]) -> tuple[Toolset, ...]:
    """Return the named toolsets, deduplicated and in canonical order.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    known = ", ".join(TOOLSETS)
    if not names:
        raise errors.InvalidRequestError(f"must name at least one of {known}", field="toolsets")
    for name in names:
        if not is_toolset(name):
            message = f"there is no toolset {name!r}; known: {known}"
            raise errors.InvalidRequestError(message, field="toolsets")
    return tuple(toolset for toolset in TOOLSETS if toolset in names)


def parse_toolsets(text: str) -> tuple[Toolset, ...]:
    """Parse a comma-separated list of toolsets.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    return choose_toolsets([name.strip() for name in text.split(",")])


def is_toolset(name: str) -> TypeGuard[Toolset]:
    """Return True if there is a toolset of this name."""
    return name in TOOLSETS


KeyScope = Literal["read", "write", "search", "delete", "admin"]
KEY_SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)

KEY_PREFIX = "engram_sk_live_"
"""Prefix of every secret, so that secret scanners recognise a leaked one."""

KEY_OVERLAP_S = 86_400
"""How long a rotated key stays valid by default: a day to deploy its successor."""

OPERATOR = "operator"
"""The actor in audit entries for calls with the operator's token."""

SYSTEM = "system"
"""The actor in audit entries for work in the background that nobody asked for at that moment."""

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
        raise errors.QuotaExceededError(resource=resource, limit=bound, used=used, needed=needed)


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
                raise errors.AccessDeniedError(scope)

    def require_toolset(self, toolset: Toolset) -> None:
        """Reject the call unless the credential may use `toolset`.

        Raises:
            ToolsetDeniedError: the credential is limited to other toolsets.
        """
        if self.toolsets is not None and toolset not in self.toolsets:
            raise errors.ToolsetDeniedError(toolset)


class Organization(Value):
    """A tenant."""

    id: OrganizationId
    name: str
    is_local: bool
    quota: Quota
    created_at: datetime
    home: str | None = None
    """The database that has its rows; None is the control database, or the directory."""


class OrganizationChange(Request):
    """Changes to a tenant: an omitted field stays, null removes a limit."""

    needs_a_field: ClassVar = True

    name: Name | None = None
    messages_max: Count | UnsetType | None = UNSET
    bytes_max: Count | UnsetType | None = UNSET

    def check(self) -> None:
        if not self.given:
            raise errors.InvalidRequestError(
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
    home: HomeName | None = None

    @property
    def quota(self) -> Quota:
        """Return the quota that the fields describe."""
        return Quota(messages_max=self.messages_max, bytes_max=self.bytes_max)


class KeyRequests(Value):
    """Requests on one day."""

    day: str
    """In UTC, as in 2026-01-31."""
    requests: int


class KeyUsage(Value):
    """Requests of one key by day."""

    key_id: KeyId
    days: tuple[KeyRequests, ...]
    """The newest first, without days on which it was not used."""


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
    return derived(KeyDraft, key)


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


class PageSession(Value):
    """The sign-in of a browser: with a key, as the owner of this machine, or as an operator."""

    organization_id: OrganizationId | None
    """None for an operator who acts for no organisation."""
    actor: str
    key_id: KeyId | None = None
    key_hash: str | None = None
    """SHA-256 of the key's secret, in hex."""
    operator_hash: str | None = None
    """SHA-256 of the operator's token, in hex: with another token the session ends."""
    created_at: datetime
    expires_at: datetime


class Visitor(Value):
    """The caller behind a session of the page."""

    principal: Principal | None
    """None for an operator who acts for no organisation."""
    operator: str | None = None
    """The actor of an operator's token."""


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
    files: tuple[str, ...] = ()
    """Those that were removed or written anew, so that nothing of it is left in them."""
    backups: tuple[BackupNote, ...] = ()
    """Those that still hold it, and until when, as far as this store knows of them."""
    still_held: tuple[str, ...] = ()
    """What this store cannot erase itself, in words."""
    deleted: Literal[True] = True


class AuditRecord(Value):
    """An audit entry with its organisation."""

    organization_id: OrganizationId
    entry: AuditEntry

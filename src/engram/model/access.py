"""Who asks, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from engram import limits
from engram.errors import (
    AccessDeniedError,
    InvalidRequestError,
    QuotaExceededError,
    ToolsetDeniedError,
)
from engram.model.checks import check_label, check_moment, check_range
from engram.model.ids import KeyId, OrganizationId
from engram.model.toolsets import Toolset, choose_toolsets

KeyScope = Literal["read", "write", "search", "delete", "admin"]
KEY_SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)

KEY_PREFIX = "engram_sk_live_"
"""What every secret begins with, so that scanners of leaked secrets know it."""

KEY_OVERLAP_S = 86_400
"""How long a rotated key goes on working: a day to bring the new one to where it is used."""

OPERATOR = "operator"
"""The actor of what the operator's token did."""

LOCAL = "local"
"""The actor of what this machine's owner did without a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much an organisation may keep; None is without bound."""

    messages_max: int | None = None
    bytes_max: int | None = None

    def __post_init__(self) -> None:
        for bound in ("messages_max", "bytes_max"):
            value = getattr(self, bound)
            if value is not None:
                check_range(bound, value, minimum=0, maximum=limits.WHOLE_NUMBER_MAX)

    @property
    def is_unbounded(self) -> bool:
        """Return True if there is no bound at all."""
        return self.messages_max is None and self.bytes_max is None

    def check(self, use: Use, *, added: Use) -> None:
        """Refuse what does not fit any more; what takes nothing more is never refused.

        Raises:
            QuotaExceededError: `added` beside `use` would pass a bound.
        """
        _check_bound("messages", self.messages_max, used=use.messages, needed=added.messages)
        _check_bound("bytes", self.bytes_max, used=use.stored_bytes, needed=added.stored_bytes)


UNBOUNDED = Quota()


class Use(NamedTuple):
    """What a quota bounds."""

    messages: int
    stored_bytes: int


def _check_bound(resource: str, bound: int | None, *, used: int, needed: int) -> None:
    if bound is not None and needed > 0 and used + needed > bound:
        raise QuotaExceededError(resource=resource, limit=bound, used=used, needed=needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A request's credential, resolved: the only source of the organisation."""

    organization_id: OrganizationId
    actor: str
    """The key's id, or `local` for a process of this machine's owner."""
    scopes: frozenset[KeyScope]
    quota: Quota = Quota()
    toolsets: tuple[Toolset, ...] | None = None
    """All that the credential may use; None is every toolset."""

    def allows(self, scope: KeyScope) -> bool:
        """Return True if the credential carries `scope`."""
        return scope in self.scopes

    def require(self, *scopes: KeyScope) -> None:
        """Refuse unless the credential carries every one of `scopes`.

        Raises:
            AccessDeniedError: it lacks one.
        """
        for scope in scopes:
            if scope not in self.scopes:
                raise AccessDeniedError(scope)

    def require_toolset(self, toolset: Toolset) -> None:
        """Refuse unless the credential may use `toolset`.

        Raises:
            ToolsetDeniedError: its toolsets are others.
        """
        if self.toolsets is not None and toolset not in self.toolsets:
            raise ToolsetDeniedError(toolset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    """A tenant."""

    id: OrganizationId
    name: str
    is_local: bool
    quota: Quota
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationChange:
    """What is to be different about a tenant; a field that is not given stays.

    A bound is given with None for none at all, which is not the same as not given.
    """

    given: Mapping[str, str | int | None]
    """By field: name, messages_max, bytes_max."""

    def __post_init__(self) -> None:
        if not self.given:
            raise InvalidRequestError("give a name, messages_max or bytes_max")
        if "name" in self.given and not isinstance(self.given["name"], str):
            raise InvalidRequestError("must be a name", field="name")

    def apply(self, organization: Organization) -> Organization:
        """Return the organisation with the change.

        Raises:
            InvalidRequestError: a new name or bound is not one.
        """
        quota = organization.quota
        fields: dict[str, Any] = {
            "name": organization.name,
            "messages_max": quota.messages_max,
            "bytes_max": quota.bytes_max,
            **self.given,
        }
        bounds = Quota(messages_max=fields["messages_max"], bytes_max=fields["bytes_max"])
        draft = OrganizationDraft(name=fields["name"], quota=bounds)
        return replace(organization, name=draft.name, quota=draft.quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationDraft:
    """A tenant somebody wants to add."""

    name: str
    quota: Quota = Quota()

    def __post_init__(self) -> None:
        check_label("name", self.name, characters_max=limits.NAME_CHARACTERS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDraft:
    """A key somebody wants to have."""

    name: str
    scopes: tuple[KeyScope, ...] = KEY_SCOPES
    toolsets: tuple[Toolset, ...] | None = None
    """All that it may use; None is every toolset, of which clients see those of the setting."""
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        check_label("name", self.name, characters_max=limits.NAME_CHARACTERS_MAX)
        if not self.scopes or any(scope not in KEY_SCOPES for scope in self.scopes):
            raise InvalidRequestError(f"must be some of {', '.join(KEY_SCOPES)}", field="scopes")
        if self.toolsets is not None:
            choose_toolsets(self.toolsets)
        check_moment("expires_at", self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as listed: its secret was shown once and is not kept."""

    id: KeyId
    organization_id: OrganizationId
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
    """Return the draft of a key that may do what `key` may, for as long."""
    return KeyDraft(
        name=key.name, scopes=key.scopes, toolsets=key.toolsets, expires_at=key.expires_at
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key and, this once, its secret."""

    key: ApiKey
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedKey:
    """A key that takes the place of another, and the other with its new end."""

    new: NewKey
    old: ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOwner:
    """What a look-up by a secret's hash finds."""

    key: ApiKey
    organization: Organization


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Who did what and when; never the content."""

    id: str
    at: datetime
    actor: str
    action: str
    subject: str | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditNote:
    """What is to be audited of an organisation; it is the subject itself unless another is named."""

    organization_id: OrganizationId
    at: datetime
    actor: str
    action: str
    subject: str | None = None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDeletion:
    """The receipt of a deleted organisation; the audit keeps the same under its id."""

    receipt: str
    organization_id: OrganizationId
    deleted_at: datetime
    removed: Mapping[str, int]
    """How many conversations, messages, memories, documents, bytes of content and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An audit row and whose it is."""

    organization_id: OrganizationId
    entry: AuditEntry

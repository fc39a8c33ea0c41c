"""Credentials: who a bearer token is, and the keys an organisation hands out.

A looked-up key is trusted for at most half a second, so a revocation reaches every process within
one second, without any of them talking to another. Where they do, it is forgotten at once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engram import limits
from engram.clock import Clock
from engram.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidRequestError,
    UnauthenticatedError,
)
from engram.model.access import (
    KEY_OVERLAP_S,
    KEY_PREFIX,
    KEY_SCOPES,
    LOCAL,
    ApiKey,
    KeyDraft,
    KeyOwner,
    NewKey,
    Organization,
    OrganizationDraft,
    Principal,
    RotatedKey,
)
from engram.model.checks import check_range
from engram.model.ids import KeyId, OrganizationId
from engram.service.audit_trail import AuditTrail
from engram.service.rate import RateLimiter, RateState
from engram.service.usage import UsageMeter
from engram.storage.store import Store

if TYPE_CHECKING:
    from engram.service.failed_logins import FailedLogins
    from engram.service.operator_tokens import OperatorTokens

TRUST = timedelta(milliseconds=500)
"""How long a looked-up key is believed."""

TRUSTED_KEYS_MAX = 10_000
"""Keys remembered by one process."""


@dataclass(frozen=True, slots=True)
class _Trusted:
    owner: KeyOwner
    until: datetime


class Access:
    """Turns credentials into principals and manages keys."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        limiter: RateLimiter,
        *,
        trail: AuditTrail,
        meter: UsageMeter,
        admin_token: str | None = None,
        admin_tokens_file: Path | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._limiter = limiter
        self._trail = trail
        self._meter = meter
        self._admin_token = admin_token
        self._admin_tokens_file = admin_tokens_file
        self._trusted: OrderedDict[str, _Trusted] = OrderedDict()
        self._forgettings = 0
        self._used: dict[KeyId, datetime] = {}
        self._local: tuple[Principal, datetime] | None = None

    async def authenticate(self, secret: str | None, *, address: str | None = None) -> Principal:
        """Return who presents `secret` from `address`.

        Raises:
            UnauthenticatedError: it is missing, malformed, unknown, revoked or expired.
            TooManyFailedLoginsError: it is none that was right before, and too many were wrong.
        """
        if not secret or not secret.startswith(KEY_PREFIX):
            raise UnauthenticatedError
        secret_hash = _hash_of(secret)
        network = self._logins.network_of(address)
        self._logins.admit(network, secret_hash)
        owner = await self._find(secret_hash)
        if owner is None or not owner.key.is_live(self._clock.now()):
            self._logins.note_failure(network, secret_hash)
            if owner is not None:
                self._trail.deny_ended(owner.key)
            raise UnauthenticatedError
        self._logins.note_success(secret_hash)
        self._note_use(owner.key.id, network if address else None)
        return Principal(
            organization_id=owner.organization.id,
            actor=owner.key.id,
            scopes=frozenset(owner.key.scopes),
            quota=owner.organization.quota,
            toolsets=owner.key.toolsets,
        )

    async def is_valid(self, secret: str | None) -> bool:
        """Return True if `secret` would be authenticated now; this is no use of the key."""
        if not secret or not secret.startswith(KEY_PREFIX):
            return False
        owner = await self._find(_hash_of(secret))
        return owner is not None and owner.key.is_live(self._clock.now())

    def authenticate_operator(self, token: str | None, *, address: str | None = None) -> str:
        """Return the actor whose token this is.

        Raises:
            UnauthenticatedError: it is nobody's, or no operator's token is configured.
            TooManyFailedLoginsError: it was never right from there, and too many were wrong.
        """
        if not token:
            raise UnauthenticatedError
        network = self._logins.network_of(address)
        # People choose such tokens, so they can be guessed: one that is right is known only where it
        # was used before.
        credential = f"{network} {_hash_of(token)}"
        self._logins.admit(network, credential)
        actor = self._operators.find(token)
        if actor is None:
            self._logins.note_failure(network, credential)
            raise UnauthenticatedError
        self._logins.note_success(credential)
        return actor

    def load_operators(self) -> None:
        """Read the file of operators' tokens, if there is one.

        Raises:
            ConfigurationError: it cannot be used.
        """
        self._operators.load()

    def note_denied(self, principal: Principal, error: AccessDeniedError) -> None:
        """Audit a request that the principal was not allowed."""
        self._trail.deny(principal, error)

    def take_request(self, principal: Principal) -> RateState | None:
        """Count one request of `principal`; None when there is no limit.

        Raises:
            RateLimitedError: there were too many.
        """
        self._meter.count(principal.organization_id, requests=1)
        return self._limiter.take(principal.actor)

    async def take_local_request(self, principal: Principal) -> Principal:
        """Count one request of a process of this machine's owner, and return who asks, as of now.

        Such a process asks with one principal for as long as it lives, and quotas may change.
        """
        self._meter.count(principal.organization_id, requests=1)
        now = self._clock.now()
        if self._local is None or now >= self._local[1]:
            organization = await self._store.control.get_organization(principal.organization_id)
            self._local = (replace(principal, quota=organization.quota), now + TRUST)
        return self._local[0]

    async def local_principal(self) -> Principal:
        """Return the owner of this machine's store, making the local organisation when missing."""
        organization = await self._local_organization()
        return Principal(
            organization_id=organization.id,
            actor=LOCAL,
            scopes=frozenset(KEY_SCOPES),
            quota=organization.quota,
        )

    async def first_key(self) -> NewKey | None:
        """Return a key for the local organisation when it has none yet, else None."""
        organization = await self._local_organization()
        if await self._store.control.list_keys(organization.id):
            return None
        return await self._store.control.create_key(
            organization.id, KeyDraft(name="first key"), actor=LOCAL
        )

    async def create_key(self, principal: Principal, draft: KeyDraft) -> NewKey:
        """Make a key; its secret is in the answer and nowhere else.

        Raises:
            InvalidRequestError: it would have expired already.
        """
        principal.require("admin")
        if draft.expires_at is not None and draft.expires_at <= self._clock.now():
            raise InvalidRequestError("must be in the future", field="expires_at")
        return await self._store.control.create_key(
            principal.organization_id, draft, actor=principal.actor
        )

    async def list_keys(self, principal: Principal) -> tuple[ApiKey, ...]:
        """Return the organisation's keys without their secrets."""
        principal.require("admin")
        return await self._store.control.list_keys(principal.organization_id)

    async def revoke_key(self, principal: Principal, key_id: KeyId) -> ApiKey:
        """Revoke a key; it stops working here at once, and in every process within one second.

        Raises:
            ConflictError: it is the key in use.
        """
        principal.require("admin")
        if key_id == principal.actor:
            raise ConflictError("a key cannot revoke itself: use another key")
        revoked = await self._store.control.revoke_key(
            principal.organization_id, key_id, actor=principal.actor
        )
        self.forget_keys(principal.organization_id)
        return revoked

    async def rotate_key(
        self, principal: Principal, key_id: KeyId, *, overlap_s: int = KEY_OVERLAP_S
    ) -> RotatedKey:
        """Make a key like another one, which goes on working for `overlap_s` seconds.

        Raises:
            ConflictError: it is revoked or has expired.
        """
        principal.require("admin")
        check_range("overlap_s", overlap_s, minimum=0, maximum=limits.KEY_OVERLAP_S_MAX)
        rotated = await self._store.control.rotate_key(
            principal.organization_id,
            key_id,
            overlap=timedelta(seconds=overlap_s),
            actor=principal.actor,
        )
        self.forget_keys(principal.organization_id)
        return rotated

    def forget_keys(self, organization_id: OrganizationId | None) -> None:
        """Believe no looked-up key of an organisation any more; None is all of them."""
        self._forgettings += 1
        for secret_hash, trusted in [*self._trusted.items()]:
            if organization_id in (None, trusted.owner.organization.id):
                del self._trusted[secret_hash]

    async def record_use(self) -> None:
        """Write down when and from where keys were used, and what was denied."""
        await self._trail.flush()
        used, self._used = self._used, {}
        if used:
            await self._store.control.touch_keys(used)

    def _note_use(self, key_id: KeyId, address: str | None) -> None:
        self._used[key_id] = self._clock.now()
        if address is not None:
            self._trail.see(key_id, address)

    # A process without credentials of others, as one that speaks over stdio, needs neither of these.

    @cached_property
    def _logins(self) -> FailedLogins:
        from engram.service.failed_logins import FailedLogins  # noqa: PLC0415 as said above

        return FailedLogins(self._clock)

    @cached_property
    def _operators(self) -> OperatorTokens:
        from engram.service.operator_tokens import OperatorTokens  # noqa: PLC0415 as said above

        return OperatorTokens(self._admin_token, self._admin_tokens_file)

    async def _local_organization(self) -> Organization:
        control = self._store.control
        organization = await control.local_organization()
        if organization is not None:
            return organization
        try:
            draft = OrganizationDraft(name=LOCAL)
            return await control.create_organization(draft, actor=LOCAL, is_local=True)
        except ConflictError:
            # Another process made it between our look and our write.
            found = await control.local_organization()
            if found is None:
                raise
            return found

    async def _find(self, secret_hash: str) -> KeyOwner | None:
        now = self._clock.now()
        trusted = self._trusted.get(secret_hash)
        if trusted is not None and now < trusted.until:
            return trusted.owner
        forgettings = self._forgettings
        owner = await self._store.control.find_key(secret_hash)
        if owner is None:
            self._trusted.pop(secret_hash, None)
            return None
        if forgettings != self._forgettings:
            # It may have been read before the change that others told of.
            return owner
        self._trusted[secret_hash] = _Trusted(owner, now + TRUST)
        self._trusted.move_to_end(secret_hash)
        if len(self._trusted) > TRUSTED_KEYS_MAX:
            self._trusted.popitem(last=False)
        return owner


def _hash_of(credential: str) -> str:
    return hashlib.sha256(credential.encode(errors="replace")).hexdigest()

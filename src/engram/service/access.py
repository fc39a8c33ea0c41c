"""Credentials: who a bearer token is, and the keys an organisation hands out.

A looked-up key is trusted for at most half a second, so a revocation reaches every process within
one second, without any of them talking to another. Where they do, it is forgotten at once.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from engram.clock import Clock
from engram.errors import ConflictError, UnauthenticatedError
from engram.model.access import (
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
)
from engram.model.ids import KeyId, OrganizationId
from engram.service.rate import RateLimiter, RateState
from engram.storage.ports import Store

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
        self, store: Store, clock: Clock, limiter: RateLimiter, *, admin_token: str | None
    ) -> None:
        self._store = store
        self._clock = clock
        self._limiter = limiter
        self._admin_token = admin_token
        self._trusted: OrderedDict[str, _Trusted] = OrderedDict()
        self._forgettings = 0
        self._used: dict[KeyId, datetime] = {}

    async def authenticate(self, secret: str | None) -> Principal:
        """Return who presents `secret`.

        Raises:
            UnauthenticatedError: it is missing, malformed, unknown, revoked or expired.
        """
        if not secret or not secret.startswith(KEY_PREFIX):
            raise UnauthenticatedError
        owner = await self._find(hashlib.sha256(secret.encode(errors="replace")).hexdigest())
        if owner is None or not self._is_live(owner.key):
            raise UnauthenticatedError
        self._used[owner.key.id] = self._clock.now()
        return Principal(
            organization_id=owner.organization.id,
            actor=owner.key.id,
            scopes=frozenset(owner.key.scopes),
            quota=owner.organization.quota,
            toolsets=owner.key.toolsets,
        )

    def authenticate_operator(self, token: str | None) -> None:
        """Refuse unless `token` is the operator's.

        Raises:
            UnauthenticatedError: it is not, or no operator token is configured.
        """
        if not self._admin_token or not token:
            raise UnauthenticatedError
        if not hmac.compare_digest(token.encode(), self._admin_token.encode()):
            raise UnauthenticatedError

    def take_request(self, principal: Principal) -> RateState | None:
        """Count one request of `principal`; None when there is no limit.

        Raises:
            RateLimitedError: there were too many.
        """
        return self._limiter.take(principal.actor)

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
        """Make a key; its secret is in the answer and nowhere else."""
        principal.require("admin")
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

    def forget_keys(self, organization_id: OrganizationId | None) -> None:
        """Believe no looked-up key of an organisation any more; None is all of them."""
        self._forgettings += 1
        for secret_hash, trusted in [*self._trusted.items()]:
            if organization_id in (None, trusted.owner.organization.id):
                del self._trusted[secret_hash]

    async def record_use(self) -> None:
        """Write down when keys were last used."""
        used, self._used = self._used, {}
        if used:
            await self._store.control.touch_keys(used)

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

    def _is_live(self, key: ApiKey) -> bool:
        expired = key.expires_at is not None and key.expires_at <= self._clock.now()
        return key.revoked_at is None and not expired

"""Authentication of bearer tokens, and the API keys of organisations.

A key is cached for at most half a second, so a revocation reaches every process within one second
even where processes do not notify each other.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engram import errors, limits
from engram.clock import Clock
from engram.errors import ConflictError, UnauthenticatedError
from engram.model import access
from engram.model.access import KEY_OVERLAP_S, LOCAL, KeyDraft, KeyOwner, Principal
from engram.model.checks import check_range
from engram.model.ids import KeyId, OrganizationId
from engram.model.value import replace
from engram.service.access.audit_trail import AuditTrail
from engram.service.access.rate import FailedLogins, RateLimiter, RateState
from engram.service.access.usage import UsageMeter
from engram.storage.store import Store

if TYPE_CHECKING:
    from engram.service.access.operator_tokens import OperatorTokens

CACHED = timedelta(milliseconds=500)
"""How long a key is served from the cache."""

CACHED_KEYS_MAX = 10_000


class _Cached(NamedTuple):
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
        self._logins = FailedLogins(clock)
        self._trail = trail
        self._meter = meter
        self._admin_token = admin_token
        self._admin_tokens_file = admin_tokens_file
        self._cache: OrderedDict[str, _Cached] = OrderedDict()
        """LRU cache by the hash of the secret."""
        self._invalidations = 0
        self._used: dict[KeyId, datetime] = {}
        self._local: tuple[Principal, datetime] | None = None

    async def authenticate(self, secret: str | None, *, address: str | None = None) -> Principal:
        """Return the principal of an API key presented from `address`.

        Raises:
            UnauthenticatedError: the key is missing, malformed, unknown, revoked or expired.
            TooManyFailedLoginsError: the key was never right, and too many others were wrong.
        """
        if not secret or not secret.startswith(access.KEY_PREFIX):
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
        """Return True if `secret` would be authenticated now; this does not count as a use."""
        if not secret or not secret.startswith(access.KEY_PREFIX):
            return False
        owner = await self._find(_hash_of(secret))
        return owner is not None and owner.key.is_live(self._clock.now())

    def authenticate_operator(self, token: str | None, *, address: str | None = None) -> str:
        """Return the actor of an operator token.

        Raises:
            UnauthenticatedError: the token is unknown, or none is configured.
            TooManyFailedLoginsError: it was never right from there, and too many were wrong.
        """
        if not token:
            raise UnauthenticatedError
        network = self._logins.network_of(address)
        # People choose such tokens, so they can be guessed: a right one bypasses the limit only from
        # the network it was used from before.
        credential = f"{network} {_hash_of(token)}"
        self._logins.admit(network, credential)
        actor = self._operators.find(token)
        if actor is None:
            self._logins.note_failure(network, credential)
            raise UnauthenticatedError
        self._logins.note_success(credential)
        return actor

    def load_operators(self) -> None:
        """Read the file of operator tokens, if there is one.

        Raises:
            ConfigurationError: the file cannot be used.
        """
        self._operators.load()

    def note_denied(self, principal: Principal, error: errors.AccessDeniedError) -> None:
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
        """Count one request without a key; return the principal with its present quota.

        A local process uses one principal for as long as it lives, and quotas may change.
        """
        self._meter.count(principal.organization_id, requests=1)
        now = self._clock.now()
        if self._local is None or now >= self._local[1]:
            organization = await self._store.control.get_organization(principal.organization_id)
            self._local = (replace(principal, quota=organization.quota), now + CACHED)
        return self._local[0]

    async def local_principal(self) -> Principal:
        """Return the owner of this machine's store; the local organisation is created if missing."""
        organization = await self._local_organization()
        return Principal(
            organization_id=organization.id,
            actor=LOCAL,
            scopes=frozenset(access.KEY_SCOPES),
            quota=organization.quota,
        )

    async def first_key(self) -> access.NewKey | None:
        """Create a key for the local organisation; return None if it has one."""
        organization = await self._local_organization()
        if await self._store.control.list_keys(organization.id):
            return None
        return await self._store.control.create_key(
            organization.id, KeyDraft(name="first key"), actor=LOCAL
        )

    async def create_key(self, principal: Principal, draft: KeyDraft) -> access.NewKey:
        """Create a key; its secret is in the answer and nowhere else.

        Raises:
            InvalidRequestError: `expires_at` is in the past.
        """
        principal.require("admin")
        if draft.expires_at is not None and draft.expires_at <= self._clock.now():
            raise errors.InvalidRequestError("must be in the future", field="expires_at")
        return await self._store.control.create_key(
            principal.organization_id, draft, actor=principal.actor
        )

    async def list_keys(self, principal: Principal) -> tuple[access.ApiKey, ...]:
        """Return the organisation's keys without their secrets."""
        principal.require("admin")
        return await self._store.control.list_keys(principal.organization_id)

    async def revoke_key(self, principal: Principal, key_id: KeyId) -> access.ApiKey:
        """Revoke a key; it stops working here at once, and in every process within one second.

        Raises:
            ConflictError: it is the key that the request was made with.
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
    ) -> access.RotatedKey:
        """Create the successor of a key, which goes on working for `overlap_s` seconds.

        Raises:
            ConflictError: the key is revoked or has expired.
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
        """Drop the keys of an organisation from the cache; None is all of them."""
        self._invalidations += 1
        for secret_hash, cached in [*self._cache.items()]:
            if organization_id in (None, cached.owner.organization.id):
                del self._cache[secret_hash]

    async def record_use(self) -> None:
        """Store when and from where keys were used, and what was denied."""
        await self._trail.flush()
        used, self._used = self._used, {}
        if used:
            await self._store.control.touch_keys(used)

    def _note_use(self, key_id: KeyId, address: str | None) -> None:
        self._used[key_id] = self._clock.now()
        if address is not None:
            self._trail.see(key_id, address)

    @cached_property
    def _operators(self) -> OperatorTokens:
        from engram.service.access.operator_tokens import OperatorTokens  # noqa: PLC0415 not used over stdio

        return OperatorTokens(self._admin_token, self._admin_tokens_file)

    async def _local_organization(self) -> access.Organization:
        control = self._store.control
        organization = await control.local_organization()
        if organization is not None:
            return organization
        try:
            draft = access.OrganizationDraft(name=LOCAL)
            return await control.create_organization(draft, actor=LOCAL, is_local=True)
        except ConflictError:
            # Another process created it in between.
            found = await control.local_organization()
            if found is None:
                raise
            return found

    async def _find(self, secret_hash: str) -> KeyOwner | None:
        now = self._clock.now()
        cached = self._cache.get(secret_hash)
        if cached is not None and now < cached.until:
            return cached.owner
        invalidations = self._invalidations
        owner = await self._store.control.find_key(secret_hash)
        if owner is None:
            self._cache.pop(secret_hash, None)
            return None
        if invalidations != self._invalidations:
            # The row may have been read before the change that invalidated the cache.
            return owner
        self._cache[secret_hash] = _Cached(owner, now + CACHED)
        self._cache.move_to_end(secret_hash)
        if len(self._cache) > CACHED_KEYS_MAX:
            self._cache.popitem(last=False)
        return owner


def _hash_of(credential: str) -> str:
    return hashlib.sha256(credential.encode(errors="replace")).hexdigest()

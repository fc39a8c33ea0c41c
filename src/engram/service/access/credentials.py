"""Authentication of bearer tokens: API keys of organisations, and operator tokens.

Operator tokens are the one of the settings and those of a file of hashes, one `name:sha256` a line, which is
read again when it changes; a file that cannot be trusted lets nobody in.

A key is cached for at most half a second, so a revocation reaches every process within one second
even where processes do not notify each other.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from stat import S_IMODE
from typing import NamedTuple

from engram import errors, limits
from engram.clock import Clock, random_text
from engram.errors import (
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    UnauthenticatedError,
)
from engram.model import access
from engram.model.access import KEY_OVERLAP_S, LOCAL, OPERATOR, KeyDraft, KeyOwner, Principal
from engram.model.fields import check_range
from engram.model.ids import KeyId, OrganizationId
from engram.model.value import replace
from engram.service.access.audit import AuditTrail
from engram.service.access.rate import FailedLogins, RateLimiter, RateState
from engram.service.access.usage import UsageMeter
from engram.storage.store import Store

logger = logging.getLogger(__name__)

SETTING = "ENGRAM_ADMIN_TOKENS_FILE"
TOKEN_PREFIX = "engram_op_"  # noqa: S105 how every token begins, and no token
_TOKEN_RANDOM_CHARACTERS = 43
_OTHERS = 0o077
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_Version = tuple[int, int, int, int]


class OperatorTokens:
    """Operator tokens, and the operator that each belongs to."""

    def __init__(self, token: str | None, file: Path | None) -> None:
        self._own = None if token is None else _digest(token)
        self._file = file
        self._version: _Version | None = None
        self._named: dict[str, bytes] = {}

    def load(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: it cannot be read, others can read it, or a line is wrong.
        """
        if self._file is None:
            return
        self._named, self._version = {}, None
        try:
            version = _version_of(self._file)
            self._named = _read(self._file)
        except OSError as exc:
            raise ConfigurationError(SETTING, f"{self._file}: {exc.strerror}") from exc
        self._version = version

    def find(self, token: str) -> str | None:
        """Return the actor of a token, None if there is none; takes constant time."""
        self._renew()
        digest, found = _digest(token), None
        for actor, expected in self._operators():
            if hmac.compare_digest(digest, expected):
                found = actor
        return found

    def is_current(self, actor: str, token_hash: str) -> bool:
        """Return True if the token with that SHA-256 in hex is still the actor's."""
        self._renew()
        return any(
            name == actor and hmac.compare_digest(token_hash, expected.hex())
            for name, expected in self._operators()
        )

    def _operators(self) -> Iterator[tuple[str, bytes]]:
        if self._own is not None:
            yield OPERATOR, self._own
        for name, expected in self._named.items():
            yield f"{OPERATOR}:{name}", expected

    def _renew(self) -> None:
        if self._file is None:
            return
        try:
            if self._version != _version_of(self._file):
                self.load()
        except (ConfigurationError, OSError) as exc:
            # A token that was taken out of the file must not go on working because of a typo in it.
            self._named, self._version = {}, None
            logger.error("no named operator is let in: %s", exc)  # noqa: TRY400 the reason says it all


def new_operator_token(name: str) -> tuple[str, str]:
    """Return a new token and its line for the file.

    Raises:
        InvalidRequestError: the name is malformed.
    """
    if _NAME.fullmatch(name) is None:
        message = "must be 1 to 64 letters, digits and . _ @ -, beginning with a letter or digit"
        raise InvalidRequestError(message, field="name")
    token = TOKEN_PREFIX + random_text(_TOKEN_RANDOM_CHARACTERS)
    return token, f"{name}:{_digest(token).hex()}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _version_of(file: Path) -> _Version:
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _read(file: Path) -> dict[str, bytes]:
    with file.open("rb") as opened:
        mode = S_IMODE(file.stat().st_mode)
        if mode & _OTHERS:
            message = f"{file} can be used by others (mode {mode:04o}): run `chmod 600 {file}`"
            raise ConfigurationError(SETTING, message)
        content = opened.read(limits.OPERATOR_FILE_BYTES_MAX + 1)
    if len(content) > limits.OPERATOR_FILE_BYTES_MAX:
        raise ConfigurationError(
            SETTING, f"{file}: at most {limits.OPERATOR_FILE_BYTES_MAX:,} bytes are allowed"
        )
    named = dict[str, bytes]()
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, expected = _parse(line.strip(), place=f"{file}, line {number}")
        if name in named:
            raise ConfigurationError(SETTING, f"{file}, line {number}: {name!r} is there already")
        named[name] = expected
    return named


def _parse(line: str, *, place: str) -> tuple[str, bytes]:
    name, _, digest = line.partition(":")
    if _NAME.fullmatch(name) is None or _SHA256.fullmatch(digest) is None:
        raise ConfigurationError(SETTING, f"{place}: must be NAME:SHA256, the hash in hex")
    return name, bytes.fromhex(digest)


CACHED = timedelta(milliseconds=500)
"""How long a key, or a session that it began, is served from the cache."""

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
        secret_hash = hash_of(secret)
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
        return _principal_of(owner)

    async def find_principal(self, secret_hash: str) -> Principal | None:
        """Return the principal of the key whose secret has that SHA-256, None if the key has ended."""
        owner = await self._find(secret_hash)
        if owner is None or not owner.key.is_live(self._clock.now()):
            return None
        self._note_use(owner.key.id, None)
        return _principal_of(owner)

    async def is_valid(self, secret: str | None) -> bool:
        """Return True if `secret` would be authenticated now; this does not count as a use."""
        if not secret or not secret.startswith(access.KEY_PREFIX):
            return False
        owner = await self._find(hash_of(secret))
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
        credential = f"{network} {hash_of(token)}"
        self._logins.admit(network, credential)
        actor = self._operators.find(token)
        if actor is None:
            self._logins.note_failure(network, credential)
            raise UnauthenticatedError
        self._logins.note_success(credential)
        return actor

    def is_operator(self, actor: str, token_hash: str) -> bool:
        """Return True if an operator's token with that SHA-256 is still in force."""
        return self._operators.is_current(actor, token_hash)

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
        self._meter.count_request(principal)
        return self._limiter.take(principal.actor)

    async def take_local_request(self, principal: Principal) -> Principal:
        """Count one request without a key; return the principal with its present quota.

        A local process uses one principal for as long as it lives, and quotas may change.
        """
        self._meter.count(principal.organization_id, requests=1)
        now = self._clock.now()
        if self._local is None or not is_fresh(self._local[1], now):
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

    async def key_usage(self, principal: Principal, *, days: int) -> tuple[access.KeyUsage, ...]:
        """Return the requests of each key that was used in the last days, by day, the newest first."""
        principal.require("admin")
        since = self._clock.now().date() - timedelta(days=days - 1)
        found = await self._store.control.list_key_usage(principal.organization_id, since=since)
        by_key = dict[KeyId, list[access.KeyRequests]]()
        for each in found:
            by_key.setdefault(each.key_id, []).append(
                access.KeyRequests(day=each.day.isoformat(), requests=each.requests)
            )
        return tuple(
            access.KeyUsage(key_id=key_id, days=tuple(days)) for key_id, days in by_key.items()
        )

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

    async def restore_key(self, principal: Principal, key_id: KeyId) -> access.ApiKey:
        """Make a key work again that was revoked by mistake, at most `KEY_RESTORE_S_MAX` seconds ago.

        Raises:
            ConflictError: it was revoked earlier, or has expired.
        """
        principal.require("admin")
        restored = await self._store.control.restore_key(
            principal.organization_id,
            key_id,
            within=timedelta(seconds=limits.KEY_RESTORE_S_MAX),
            actor=principal.actor,
        )
        self.forget_keys(principal.organization_id)
        return restored

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
        if cached is not None and is_fresh(cached.until, now):
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


def _principal_of(owner: KeyOwner) -> Principal:
    return Principal(
        organization_id=owner.organization.id,
        actor=owner.key.id,
        scopes=frozenset(owner.key.scopes),
        quota=owner.organization.quota,
        toolsets=owner.key.toolsets,
    )


def is_fresh(until: datetime, now: datetime) -> bool:
    """Return True if something cached is to be used: not after a clock was set back, either."""
    return timedelta() < until - now <= CACHED


def hash_of(credential: str) -> str:
    """Return the SHA-256 of a credential in hex: the form that is stored and compared."""
    return hashlib.sha256(credential.encode(errors="replace")).hexdigest()

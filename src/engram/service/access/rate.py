"""Rate limits by token bucket: requests of each key, and failed logins of each address."""

from __future__ import annotations

import math
from collections import OrderedDict
from contextlib import suppress
from typing import NamedTuple

from engram import limits
from engram.clock import Clock
from engram.errors import RateLimitedError, TooManyFailedLoginsError

BUCKETS_MAX = 10_000
"""Keys whose buckets are held; a bucket that was dropped is a full one."""

BURST_SECONDS = 2
"""A bucket holds this many seconds of its rate."""

_NETWORK_BITS = 64
"""Of an IPv6 address that name one customer's network; the rest is theirs to choose."""

_REFILL_S = 60


class TokenBucket:
    """Token bucket that refills at `rate` tokens a second and may be overdrawn to `-debt_max`."""

    __slots__ = ("_capacity", "_debt_max", "_filled_at", "_rate", "tokens")

    def __init__(self, capacity: float, rate: float, *, debt_max: float = 0.0) -> None:
        self._capacity = capacity
        self._rate = rate
        self._debt_max = debt_max
        self.tokens = capacity
        self._filled_at = 0.0

    def fill(self, now: float) -> None:
        """Add the tokens that are due; a clock that goes back takes none away."""
        gained = max(0.0, now - self._filled_at) * self._rate
        self.tokens = min(self._capacity, self.tokens + gained)
        self._filled_at = now

    def take(self, now: float, count: float = 1) -> None:
        """Take tokens, whether or not there are as many."""
        self.fill(now)
        self.tokens = max(self.tokens - count, -self._debt_max)

    def wait_s(self, now: float, *, wanted: float = 1) -> float:
        """Return the seconds until there are `wanted` tokens; 0 if there are."""
        self.fill(now)
        return max(0.0, (wanted - self.tokens) / self._rate)


class TokenBuckets:
    """LRU cache of equal token buckets by key; a bucket that was dropped is a full one."""

    def __init__(
        self, capacity: float, rate: float, *, debt_max: float = 0.0, keys_max: int = BUCKETS_MAX
    ) -> None:
        self._shape = (capacity, rate, debt_max)
        self._keys_max = keys_max
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def get(self, key: str) -> TokenBucket | None:
        """Return the bucket of a key that has used it."""
        return self._buckets.get(key)

    def use(self, key: str) -> TokenBucket:
        """Return the bucket of a key, a full one if there is none."""
        bucket = self._buckets.get(key)
        if bucket is None:
            capacity, rate, debt_max = self._shape
            bucket = self._buckets[key] = TokenBucket(capacity, rate, debt_max=debt_max)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._keys_max:
            self._buckets.popitem(last=False)
        return bucket


class RateState(NamedTuple):
    """What is left of a key's bucket after a request."""

    limit: int
    remaining: int
    reset_s: int


class RateLimiter:
    """Counts requests per key within one process; a rate of 0 limits nothing."""

    def __init__(self, requests_per_s: float, clock: Clock) -> None:
        self._rate = requests_per_s
        self._capacity = max(1.0, requests_per_s * BURST_SECONDS)
        self._clock = clock
        self._buckets = TokenBuckets(self._capacity, requests_per_s)

    def take(self, key: str) -> RateState | None:
        """Take one request from the bucket of `key`; None when there is no limit.

        Raises:
            RateLimitedError: the bucket is empty.
        """
        if not self._rate:
            return None
        bucket, now = self._buckets.use(key), self._clock.now().timestamp()
        limit = int(self._capacity)
        if wait_s := bucket.wait_s(now):
            raise RateLimitedError(retry_after_s=wait_s, limit=limit)
        bucket.take(now)
        missing = self._capacity - bucket.tokens
        return RateState(limit, int(bucket.tokens), math.ceil(missing / self._rate))


class FailedLogins:
    """Limits lookups of wrong credentials, by address and in total; buckets refill in a minute.

    A credential that was right before is always looked up, and so is the first one from an address:
    whoever shares an address with an attacker keeps working, and nobody is locked out elsewhere.
    Concurrent calls may overdraw a bucket, by as much as it holds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        most, address_most = limits.FAILED_LOGINS_MAX, limits.FAILED_LOGINS_PER_ADDRESS_MAX
        self._everywhere = TokenBucket(most, most / _REFILL_S, debt_max=most)
        self._by_address = TokenBuckets(
            address_most,
            address_most / _REFILL_S,
            debt_max=address_most,
            keys_max=limits.FAILED_LOGIN_ADDRESSES_MAX,
        )
        self._known: OrderedDict[str, None] = OrderedDict()

    def admit(self, address: str, credential: str) -> None:
        """Refuse to look up a credential that was never right, if too many failed before it.

        Raises:
            TooManyFailedLoginsError: says when the next one is looked up.
        """
        bucket = self._by_address.get(address)
        if credential in self._known or bucket is None:
            return
        now = self._clock.now().timestamp()
        if wait_s := max(bucket.wait_s(now), self._everywhere.wait_s(now)):
            raise TooManyFailedLoginsError(
                retry_after_s=wait_s, limit=limits.FAILED_LOGINS_PER_ADDRESS_MAX
            )

    @staticmethod
    def network_of(address: str | None) -> str:
        """Return the key of an address: itself for IPv4, its /64 network for IPv6."""
        # A process that speaks over stdio sees no address.
        from ipaddress import IPv6Address, ip_address  # noqa: PLC0415

        with suppress(ValueError):
            parsed = ip_address(address or "")
            if not isinstance(parsed, IPv6Address):
                return str(parsed)
            if parsed.ipv4_mapped is not None:
                return str(parsed.ipv4_mapped)
            network = int(parsed) >> _NETWORK_BITS << _NETWORK_BITS
            return f"{IPv6Address(network)}/{_NETWORK_BITS}"
        return "local"

    def note_success(self, credential: str) -> None:
        """Add a credential to the known ones."""
        self._known[credential] = None
        self._known.move_to_end(credential)
        if len(self._known) > limits.KNOWN_CREDENTIALS_MAX:
            self._known.popitem(last=False)

    def note_failure(self, address: str, credential: str) -> None:
        """Count a wrong credential, also if it was a known one."""
        self._known.pop(credential, None)
        now = self._clock.now().timestamp()
        self._by_address.use(address).take(now)
        self._everywhere.take(now)

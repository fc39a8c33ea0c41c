"""Limits how often wrong credentials are looked up, by address and in all.

A credential that was right before is always looked up, and so is the first one from an address:
whoever shares an address with an attacker keeps working, and nobody is locked out elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from ipaddress import IPv6Address, ip_address

from engram import limits
from engram.clock import Clock
from engram.errors import TooManyFailedLoginsError

_NETWORK_BITS = 64
"""Of an IPv6 address that name one customer's network; the rest is theirs to choose."""


class FailedLogins:
    """Token buckets of failures; each failure costs a token, and tokens come back with time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._everywhere = _Bucket(limits.FAILED_LOGINS_MAX)
        self._by_address: OrderedDict[str, _Bucket] = OrderedDict()
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
        wait_s = max(bucket.wait_s(now), self._everywhere.wait_s(now))
        if wait_s:
            raise TooManyFailedLoginsError(
                retry_after_s=wait_s, limit=limits.FAILED_LOGINS_PER_ADDRESS_MAX
            )

    @staticmethod
    def network_of(address: str | None) -> str:
        """Return what failures are counted by: an IPv4 address, or the network of an IPv6 one."""
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
        """Remember that a credential is right."""
        self._known[credential] = None
        self._known.move_to_end(credential)
        if len(self._known) > limits.KNOWN_CREDENTIALS_MAX:
            self._known.popitem(last=False)

    def note_failure(self, address: str, credential: str) -> None:
        """Count a wrong credential, whatever it was before."""
        self._known.pop(credential, None)
        fresh = _Bucket(limits.FAILED_LOGINS_PER_ADDRESS_MAX)
        bucket = self._by_address.setdefault(address, fresh)
        self._by_address.move_to_end(address)
        if len(self._by_address) > limits.FAILED_LOGIN_ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        now = self._clock.now().timestamp()
        bucket.take(now)
        self._everywhere.take(now)


class _Bucket:
    """Refills itself in a minute; it may be overdrawn once over by calls that run at once."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._rate = capacity / 60
        self._tokens = float(capacity)
        self._filled_at = 0.0

    def wait_s(self, now: float) -> float:
        """Return how many seconds it takes until there is a token; 0 if there is one."""
        self._fill(now)
        return max(0.0, (1 - self._tokens) / self._rate)

    def take(self, now: float) -> None:
        self._fill(now)
        self._tokens = max(self._tokens - 1, -self._capacity)

    def _fill(self, now: float) -> None:
        gained = max(0.0, now - self._filled_at) * self._rate
        self._tokens = min(self._capacity, self._tokens + gained)
        self._filled_at = now

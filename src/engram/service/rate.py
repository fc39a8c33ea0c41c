"""A token bucket for each key."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from engram.clock import Clock
from engram.errors import RateLimitedError

BUCKETS_MAX = 10_000
"""Keys whose buckets are remembered; a forgotten bucket is a full one."""

BURST_SECONDS = 2
"""A bucket holds this many seconds of its rate."""


@dataclass(frozen=True, slots=True)
class RateState:
    """What is left of a key's bucket after a request."""

    limit: int
    remaining: int
    reset_s: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RateLimiter:
    """Counts requests per key within one process; a rate of 0 limits nothing."""

    def __init__(self, requests_per_s: float, clock: Clock) -> None:
        self._rate = requests_per_s
        self._capacity = max(1.0, requests_per_s * BURST_SECONDS)
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str) -> RateState | None:
        """Take one request from the bucket of `key`; None when there is no limit.

        Raises:
            RateLimitedError: the bucket is empty.
        """
        if not self._rate:
            return None
        bucket = self._filled_bucket(key)
        if bucket.tokens < 1:
            raise RateLimitedError(
                retry_after_s=(1 - bucket.tokens) / self._rate, limit=int(self._capacity)
            )
        bucket.tokens -= 1
        missing = self._capacity - bucket.tokens
        return RateState(
            limit=int(self._capacity),
            remaining=int(bucket.tokens),
            reset_s=math.ceil(missing / self._rate),
        )

    def _filled_bucket(self, key: str) -> _Bucket:
        now = self._clock.now().timestamp()
        bucket = self._buckets.setdefault(key, _Bucket(self._capacity, now))
        self._buckets.move_to_end(key)
        elapsed = max(0.0, now - bucket.filled_at)
        bucket.tokens = min(self._capacity, bucket.tokens + elapsed * self._rate)
        bucket.filled_at = now
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return bucket

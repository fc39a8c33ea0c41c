"""Usage: counters of this process, usage of organisations by day, and quota warnings."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date

from msgspec import Struct

from engram import limits
from engram.clock import Clock
from engram.errors import EngramError, NotFoundError
from engram.model.access import Principal, Quota
from engram.model.ids import KEY_PREFIX, KeyId, OrganizationId
from engram.model.status import Counters, KeyDay, SearchTimes, UsageDay
from engram.model.value import replace
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

logger = logging.getLogger(__name__)

WARNING_SHARE = 0.8
"""Early enough to act, late enough to matter."""

Days = dict[date, UsageDay]


class Activity(Struct):
    """Counters of this process since its start."""

    messages_appended: int = 0
    memories_stored: int = 0
    searches: int = 0
    audit_lost: int = 0
    """Audit events that could not be stored or sent on; the log has a warning of each outage."""
    scrubbed_bytes: int = 0
    """Read in the background to prove what is stored."""
    scrub_faults: int = 0
    """Rows and contents that were found damaged; the log names each."""
    scrub_finished_s: float = 0.0
    """When this process last finished to read an organisation, in seconds since 1970."""
    begun: int = 0
    """Appends and searches, also those that failed."""
    in_flight: int = 0
    """Appends and searches that have not ended."""

    @contextmanager
    def answering(self) -> Generator[None]:
        """Count a caller who waits until the block ends."""
        self.begun += 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


class Latencies:
    """How long the latest searches of organisations took in this process: an LRU cache of windows."""

    def __init__(self) -> None:
        self._windows = OrderedDict[OrganizationId, deque[float]]()

    def note(self, organization_id: OrganizationId, seconds: float) -> None:
        """Add a search, and drop the oldest beyond the bounds."""
        window = self._windows.setdefault(organization_id, deque(maxlen=limits.LATENCY_SAMPLES))
        window.append(seconds)
        self._windows.move_to_end(organization_id)
        if len(self._windows) > limits.LATENCY_ORGANIZATIONS_MAX:
            self._windows.popitem(last=False)

    def of(self, organization_id: OrganizationId) -> SearchTimes | None:
        """Return the percentiles of an organisation's own searches; None if there was none."""
        ordered = sorted(self._windows.get(organization_id, ()))
        if not ordered:
            return None

        def at(share: float) -> float:
            return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1_000, 3)

        return SearchTimes(searches=len(ordered), p50_ms=at(0.5), p95_ms=at(0.95), p99_ms=at(0.99))


class UsageMeter:
    """Counters by organisation and day, written to the store in the background."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.latencies = Latencies()
        self._store = store
        self._clock = clock
        self._counted: dict[OrganizationId, Days] = {}
        self._by_key = Counter[tuple[KeyId, date]]()

    def count(
        self,
        organization_id: OrganizationId,
        *,
        requests: int = 0,
        searches: int = 0,
        messages: int = 0,
        embedded_texts: int = 0,
    ) -> None:
        """Add to the present day of an organisation."""
        added = UsageDay(
            day=self._clock.now().date(),
            requests=requests,
            searches=searches,
            messages=messages,
            embedded_texts=embedded_texts,
        )
        self._add(organization_id, added)

    def count_request(self, principal: Principal) -> None:
        """Add a request to the present day of an organisation, and of the key that it came with."""
        self.count(principal.organization_id, requests=1)
        if principal.actor.startswith(KEY_PREFIX):
            self._by_key[KeyId(principal.actor), self._clock.now().date()] += 1

    async def record(self) -> None:
        """Write the counters to the store; if that fails they are kept for the next time."""
        await self._record_keys()
        counted, self._counted = self._counted, {}
        if not counted:
            return
        try:
            used = {each: await self._with_bytes(each, days) for each, days in counted.items()}
            await self._store.control.add_usage(used)
        except EngramError as exc:
            logger.warning("the usage by day is written down later: %s", exc.message)
            for organization_id, days in counted.items():
                for each in days.values():
                    self._add(organization_id, each)

    async def _record_keys(self) -> None:
        counted, self._by_key = self._by_key, Counter[tuple[KeyId, date]]()
        if not counted:
            return
        used = [
            KeyDay(key_id=key_id, day=day, requests=requests)
            for (key_id, day), requests in counted.items()
        ]
        try:
            await self._store.control.add_key_usage(used)
        except EngramError as exc:
            logger.warning("the requests of keys are written down later: %s", exc.message)
            self._by_key.update(counted)

    def _add(self, organization_id: OrganizationId, added: UsageDay) -> None:
        days = self._counted.setdefault(organization_id, {})
        before = days.get(added.day)
        days[added.day] = added if before is None else before + added

    async def _with_bytes(self, organization_id: OrganizationId, days: Days) -> list[UsageDay]:
        try:
            store = await self._store.organization(organization_id)
            stored_bytes = (await store.counters()).use.stored_bytes
        except NotFoundError:
            return []  # deleted meanwhile
        return [replace(each, stored_bytes=stored_bytes) for each in days.values()]


def quota_warning(quota: Quota, counters: Counters) -> str | None:
    """Return a sentence if a bound of `quota` is at least 80 % used."""
    use = counters.use
    uses = (
        ("messages", use.messages, quota.messages_max),
        ("bytes", use.stored_bytes, quota.bytes_max),
    )
    for resource, used, bound in uses:
        if bound is not None and used >= WARNING_SHARE * bound:
            return f"{used:,} of {bound:,} {resource} of the quota are used"
    return None


async def find_quota_warning(principal: Principal, store: OrganizationStore) -> str | None:
    """Return the warning that is due after a write, and log it."""
    if principal.quota.is_unbounded:
        return None
    warning = quota_warning(principal.quota, await store.counters())
    if warning:
        logger.warning("organisation %s: %s", principal.organization_id, warning)
    return warning

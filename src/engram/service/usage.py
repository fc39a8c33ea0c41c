"""What organisations do by day, counted in memory and written down off the request's path."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import date

from engram.clock import Clock
from engram.errors import EngramError, NotFoundError
from engram.model.ids import OrganizationId
from engram.model.status import UsageDay
from engram.storage.store import Store

logger = logging.getLogger(__name__)

Days = dict[date, UsageDay]


class UsageMeter:
    """Counts of this process that are not written down yet."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counted: dict[OrganizationId, Days] = {}

    def count(
        self,
        organization_id: OrganizationId,
        *,
        requests: int = 0,
        searches: int = 0,
        embedded_texts: int = 0,
    ) -> None:
        """Add to the present day of an organisation."""
        added = UsageDay(
            day=self._clock.now().date(),
            requests=requests,
            searches=searches,
            embedded_texts=embedded_texts,
        )
        self._add(organization_id, added)

    async def record(self) -> None:
        """Write down what was counted; what cannot be written now is kept for the next time."""
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

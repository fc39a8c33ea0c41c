"""What every use case that searches does first: authorise, and wait for what is not indexed yet."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from engram import limits
from engram.clock import Clock, to_microseconds
from engram.model.access import Principal
from engram.search.question import INDEX_LAG, Embed, Questions
from engram.service.activity import Activity
from engram.service.indexing import Indexer
from engram.service.usage import UsageMeter
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A store to search in, and what a search needs beside its request."""

    store: OrganizationStore
    embed: Embed
    at: datetime

    @property
    def now(self) -> int:
        """Return the moment of the search in microseconds."""
        return to_microseconds(self.at)


class Searching:
    """Opens stores for searches and counts these."""

    def __init__(
        self,
        store: Store,
        *,
        questions: Questions,
        indexer: Indexer,
        activity: Activity,
        meter: UsageMeter,
        clock: Clock,
    ) -> None:
        self._store = store
        self._questions = questions
        self._indexer = indexer
        self._activity = activity
        self._meter = meter
        self._clock = clock

    @asynccontextmanager
    async def open(self, principal: Principal) -> AsyncGenerator[Opened]:
        """Yield the caller's store for one search, after a bounded wait for its newest messages."""
        principal.require("search")
        organization_id = principal.organization_id
        with self._activity.answering():
            store = await self._store.organization(organization_id)
            if self._indexer.has_lag:
                await self._indexer.drain(organization_id, limit_s=limits.INDEX_DRAIN_S)
            yield Opened(
                store=store,
                embed=partial(self._questions.embed, organization_id=organization_id),
                at=self._clock.now(),
            )
        self._activity.searches += 1
        self._meter.count(organization_id, searches=1)

    def missing(self, pending: int) -> tuple[str, ...]:
        """Say when an answer lacks what was stored last: `pending` messages still wait."""
        return (INDEX_LAG,) if self._indexer.has_lag and pending else ()

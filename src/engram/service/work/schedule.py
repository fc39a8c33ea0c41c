"""Scheduling of background work: the queue of organisations, and pauses while callers wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from engram.embedding.passages import PassageEmbedder
from engram.embedding.port import with_tokens
from engram.embedding.retry import Sleep
from engram.errors import NotFoundError
from engram.model.access import Organization
from engram.model.ids import OrganizationId
from engram.model.status import WorkKind
from engram.service.access.usage import Activity
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

if TYPE_CHECKING:
    from engram.embedding.port import EmbeddedPassage, Vectors

T = TypeVar("T")

RESTS = 4.0
"""A rest is this many times as long as the work before it: a fifth of the time is left for work."""

REST_MAX_S = 2.0
"""However long the work took: one long message is no reason to stay away for a minute."""

PASSAGES_TOGETHER = 16
"""Embedded between two rests: a long message has thousands, and they keep a core busy for minutes."""

LOOK_S = 0.02
"""How often a rest checks whether callers still come."""


async def open_if_exists(store: Store, organization_id: OrganizationId) -> OrganizationStore | None:
    """Return the store of an organisation; None if it has been deleted meanwhile."""
    try:
        return await store.organization(organization_id)
    except NotFoundError:
        return None


async def open_each(store: Store) -> AsyncIterator[tuple[Organization, OrganizationStore]]:
    """Yield every organisation with its store, one at a time."""
    for organization in await store.control.list_organizations():
        opened = await open_if_exists(store, organization.id)
        if opened is not None:
            yield organization, opened


async def settle(
    store: OrganizationStore, kind: WorkKind, work: Callable[[], Awaitable[T]]
) -> T | None:
    """Settle due work once `work` has found nothing to do; return what it does of what came meanwhile."""
    if await store.settle_due(kind):
        return None
    done = await work()
    if not done:
        await store.settle_due(kind, is_stuck=True)
    return done


class OrganizationQueue:
    """Round-robin queue of organisations with pending work, without duplicates."""

    def __init__(self) -> None:
        self._queued: dict[OrganizationId, None] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """Return how many organisations are queued."""
        return len(self._queued)

    def add(self, organization_id: OrganizationId) -> None:
        """Queue an organisation."""
        self._queued[organization_id] = None
        self._wake.set()

    async def wait(self) -> None:
        """Return when the queue is not empty."""
        if not self._queued:
            self._wake.clear()
            await self._wake.wait()

    def take(self) -> Iterator[OrganizationId]:
        """Yield the organisations queued so far; those added meanwhile have their turn later."""
        for organization_id in list(self._queued):
            del self._queued[organization_id]
            yield organization_id


class Pace:
    """Throttles background work while callers wait for answers.

    A model keeps a core busy for seconds after a burst of messages, and answers come later for it.
    While callers come, every stretch of work is short and followed by a longer rest.
    """

    def __init__(self, activity: Activity, *, sleep: Sleep = asyncio.sleep) -> None:
        self._activity = activity
        self._sleep = sleep
        self._seen = 0

    def has_callers(self) -> bool:
        """Return True if a caller waits, or has come since the last check."""
        begun, self._seen = self._seen, self._activity.begun
        return self._activity.in_flight > 0 or begun != self._seen

    async def rest(self, *, worked_s: float) -> None:
        """Sleep after work while callers come, within bounds."""
        left_s = min(RESTS * worked_s, REST_MAX_S)
        while left_s > 0 and self.has_callers():
            await self._sleep(min(LOOK_S, left_s))
            left_s -= LOOK_S


class PacedEmbedder:
    """Embeds passages in groups, with a rest after each."""

    def __init__(self, embedder: PassageEmbedder, pace: Pace) -> None:
        self._embedder = embedder
        self._pace = pace

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        """Return a vector for each passage, as the embedder does."""
        import numpy as np  # noqa: PLC0415 slow to import

        return np.concatenate(await self._in_groups(self._embedder.embed_passages, passages))

    async def embed_passages_with_tokens(
        self, passages: Sequence[str]
    ) -> Sequence[EmbeddedPassage]:
        """Return the vectors of each passage and of its tokens, as the embedder does."""
        embed = with_tokens(self._embedder).embed_passages_with_tokens
        return list(chain.from_iterable(await self._in_groups(embed, passages)))

    async def _in_groups(
        self, embed: Callable[[Sequence[str]], Awaitable[T]], passages: Sequence[str]
    ) -> list[T]:
        time = asyncio.get_running_loop().time
        groups: list[T] = []
        for start in range(0, max(len(passages), 1), PASSAGES_TOGETHER):
            began = time()
            groups.append(await embed(passages[start : start + PASSAGES_TOGETHER]))
            await self._pace.rest(worked_s=time() - began)
        return groups

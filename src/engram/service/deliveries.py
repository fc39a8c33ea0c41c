"""The log of what agents were given: noted in memory, and written to the store off the path of requests."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engram import limits
from engram.errors import EngramError, NotFoundError
from engram.model.ids import OrganizationId
from engram.model.reminder import Delivery, Given
from engram.text.tokens import count_tokens
from engram.yielding import offload

if TYPE_CHECKING:
    from engram.storage.store import Store

logger = logging.getLogger(__name__)


class DeliveryLog:
    """What tools have answered since it was last written to the store."""

    def __init__(self, store: Store, *, is_on: bool) -> None:
        self._store = store
        self._is_on = is_on
        self._waiting = deque[Given]()
        self._characters = 0
        """Of the texts that wait."""
        self._lost = 0
        self._writing = asyncio.Lock()

    def note(self, given: Given) -> None:
        """Add an answer; where nothing is written down for long, it is counted as lost instead."""
        if not self._is_on:
            return
        is_full = len(self._waiting) >= limits.DELIVERIES_WAITING_MAX
        if is_full or self._characters + len(given.text) > limits.DELIVERY_CHARACTERS_MAX:
            self._lost += 1
            return
        self._waiting.append(given)
        self._characters += len(given.text)

    async def record(self) -> None:
        """Write what was noted; what cannot be written is lost, since the log is for people alone."""
        for organization_id in {each.organization_id for each in self._waiting}:
            await self.record_of(organization_id)
        if self._lost:
            logger.warning("%d answers are missing in the log: there were too many", self._lost)
            self._lost = 0

    async def record_of(self, organization_id: OrganizationId) -> None:
        """Write what was noted for one organisation."""
        async with self._writing:
            own = [each for each in self._waiting if each.organization_id == organization_id]
            if own:
                self._waiting = deque(
                    each for each in self._waiting if each.organization_id != organization_id
                )
                self._characters = sum(len(each.text) for each in self._waiting)
                await self._write(organization_id, own)

    async def _write(self, organization_id: OrganizationId, own: Sequence[Given]) -> None:
        characters = sum(len(each.text) for each in own)
        deliveries = await offload(lambda: [*map(_delivery, own)], characters=characters)
        try:
            store = await self._store.organization(organization_id)
            await store.record_deliveries(*deliveries)
        except NotFoundError:
            return  # deleted meanwhile
        except EngramError as exc:
            logger.warning("%d answers are missing in the log: %s", len(own), exc.message)


def _delivery(given: Given) -> Delivery:
    return Delivery(
        at=given.at,
        client=given.client,
        session=given.key,
        event=given.event,
        query=None if given.query is None else _beginning(given.query),
        shown=given.shown,
        bytes=len(given.text.encode("utf-8", "replace")),
        tokens=count_tokens(given.text),
    )


def _beginning(query: str) -> str:
    """Return a question as it is kept: without secrets and private parts, and not as a whole."""
    from engram.privacy.cleaning import clean_text  # noqa: PLC0415 few processes write the log

    characters = limits.DELIVERY_QUERY_CHARACTERS_MAX
    cleaned = clean_text(query, redacts=True)
    return cleaned if len(cleaned) <= characters else cleaned[:characters] + "…"

"""Which organisations have work for the background, and which have some that could not be had."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from engram.model.ids import OrganizationId


class Noticed:
    """Organisations that are looked at in turn, in the order they were noticed."""

    def __init__(self) -> None:
        self._noticed: dict[OrganizationId, None] = {}
        self._left: set[OrganizationId] = set()
        self._wake = asyncio.Event()

    def add(self, organization_id: OrganizationId) -> None:
        """Look at an organisation soon."""
        self._noticed[organization_id] = None
        self._wake.set()

    def leave(self, organization_id: OrganizationId) -> None:
        """Look at an organisation when told to look again: its work is held by others, or rests."""
        self._left.add(organization_id)

    def look_again(self) -> None:
        """Notice the organisations that were left."""
        for organization_id in self._left:
            self.add(organization_id)
        self._left.clear()

    async def wait(self) -> None:
        """Return when there is an organisation to look at."""
        if not self._noticed:
            self._wake.clear()
            await self._wake.wait()

    def turns(self) -> Iterator[OrganizationId]:
        """Yield the organisations noticed so far; one that is noticed again has another turn later."""
        for organization_id in list(self._noticed):
            del self._noticed[organization_id]
            yield organization_id

"""The files that an organisation may see: those of the data directory but for others' exports."""

from __future__ import annotations

import asyncio

from engram.care.exports import owners_of
from engram.care.paths import DataDirectory, Place
from engram.errors import NotFoundError
from engram.model.access import Principal
from engram.model.ids import OrganizationId
from engram.storage.ports import Store


class Files:
    """Turns paths of requests into places that the principal may use."""

    def __init__(self, directory: DataDirectory, store: Store) -> None:
        self._directory = directory
        self._store = store

    async def place(self, principal: Principal, path: str, *, field: str = "path") -> Place:
        """Return where a path leads.

        Raises:
            InvalidRequestError: files are switched off, or the path leads out of the directory.
            NotFoundError: it lies in an export of another organisation.
        """
        place = await asyncio.to_thread(self._directory.place, path, field=field)
        for owner in await asyncio.to_thread(lambda: list(owners_of(place))):
            if not await self._may_see(principal, owner):
                raise NotFoundError("file", place.shown)
        return place

    async def _may_see(self, principal: Principal, owner: OrganizationId | None) -> bool:
        if owner == principal.organization_id:
            return True
        if owner is None:
            return False
        try:
            await self._store.control.get_organization(owner)
        except NotFoundError:
            # It was made by another installation, and the operator has put it here.
            return True
        return False

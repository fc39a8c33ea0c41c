"""The files of organisations: where a caller's path leads, and what becomes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from engram.care.data_directory import DataDirectory
from engram.care.old_exports import UNCLAIMED
from engram.care.paths import Place, machine_place
from engram.errors import UnavailableError
from engram.model.access import Principal
from engram.model.ids import OrganizationId
from engram.storage.store import Store

logger = logging.getLogger(__name__)


class Files:
    """Keeps a directory for each organisation, as long as the organisation is there."""

    def __init__(self, directory: DataDirectory, store: Store) -> None:
        self._directory = directory
        self._store = store
        self._is_settled = False

    async def place(self, principal: Principal, path: str, *, field: str = "path") -> Place:
        """Return where a path leads in the directory of the principal's organisation.

        Raises:
            InvalidRequestError: files are switched off, or the path leads out of the directory.
            UnavailableError: files of an earlier version cannot be brought to where they belong.
        """
        if not self._is_settled:
            await self.tidy()
        return await asyncio.to_thread(
            self._directory.place, principal.organization_id, path, field=field
        )

    def anywhere(self, path: Path) -> Place:
        """Return a place of this machine for a command of its user, never for a caller's path."""
        return machine_place(path)

    async def counted_bytes(self, organization_id: OrganizationId) -> int:
        """Return how many bytes the files of an organisation count towards its quota."""
        return await asyncio.to_thread(self._directory.counted_bytes, organization_id)

    async def remove(self, organization_id: OrganizationId) -> None:
        """Remove the files of an organisation that was deleted; `tidy` does it where this fails."""
        try:
            await asyncio.to_thread(self._directory.remove, organization_id)
        except (OSError, RecursionError) as exc:
            logger.warning(
                "files of the deleted organisation %s are still there (%s): remove its directory "
                "below ENGRAM_DATA_DIR by hand, or let the server do so",
                organization_id,
                exc,
            )

    async def remove_if_deleted(self, organization_id: OrganizationId) -> None:
        """Remove what was written for an organisation while it was being deleted."""
        if await self._store.control.was_deleted(organization_id):
            await self.remove(organization_id)

    async def tidy(self) -> None:
        """Remove what deleted organisations left, and bring old exports to where they belong.

        Raises:
            UnavailableError: the system refuses.
        """
        left = await asyncio.to_thread(self._directory.leftovers)
        is_old = not self._is_settled and await asyncio.to_thread(self._directory.needs_settling)
        if left or is_old:
            organizations = await self._store.control.list_organizations()
            known = {organization.id for organization in organizations}
            for organization_id in set(left) - known:
                await self.remove_if_deleted(organization_id)
            if is_old:
                await self._settle(known)
        self._is_settled = True

    async def _settle(self, known: Collection[OrganizationId]) -> None:
        """Move exports of earlier versions to the directories of their organisations."""
        try:
            unclaimed = await asyncio.to_thread(self._directory.settle, known)
        except OSError as exc:
            message = f"the data directory cannot be brought to its present layout: {exc.strerror}"
            raise UnavailableError(message) from exc
        if unclaimed:
            logger.warning(
                "exports of organisations that this store does not have were put into '%s' below "
                "ENGRAM_DATA_DIR, where nobody can read them; move each to the directory of an "
                "organisation, or delete it: %s",
                UNCLAIMED,
                ", ".join(unclaimed),
            )

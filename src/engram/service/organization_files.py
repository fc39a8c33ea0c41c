"""The directories of organisations: resolve callers' paths, count bytes towards quotas, remove leftovers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from engram.errors import UnavailableError
from engram.model.access import Principal
from engram.model.ids import OrganizationId
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from engram.transfer.data_directory import UNCLAIMED, DataDirectory, file_bytes
from engram.transfer.files import SafePath, path_on_machine

logger = logging.getLogger(__name__)


class OrganizationFiles:
    """One directory for each organisation, removed when the organisation is deleted."""

    def __init__(self, directory: DataDirectory, store: Store) -> None:
        self._directory = directory
        self._store = store
        self._is_tidy = False

    async def locate(self, principal: Principal, path: str, *, field: str = "path") -> SafePath:
        """Resolve a caller's path within the directory of the principal's organisation.

        Raises:
            InvalidRequestError: files are switched off, or the path leads out of the directory.
            UnavailableError: the files of an earlier version cannot be moved to the present layout.
        """
        if not self._is_tidy:
            await self.tidy()
        return await asyncio.to_thread(
            self._directory.locate, principal.organization_id, path, field=field
        )

    def anywhere(self, path: Path) -> SafePath:
        """Return a path outside of the data directory; only for commands of the local user."""
        return path_on_machine(path)

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

    async def forget(self, organization_id: OrganizationId, ids: Collection[str]) -> int:
        """Remove the files of an organisation that are named after any of some ids; return how many."""
        if not ids:
            return 0
        removed = await asyncio.to_thread(self._directory.forget, organization_id, frozenset(ids))
        if removed:
            store = await self._store.organization(organization_id)
            await store.put_file_bytes(await self.counted_bytes(organization_id))
        return removed

    async def list_exports(self, organization_id: OrganizationId, *, before: datetime) -> list[str]:
        """Return the exports in an organisation's directory that were begun before a moment, by path."""
        return await asyncio.to_thread(self._directory.exports_before, organization_id, before)

    async def remove_if_deleted(self, organization_id: OrganizationId) -> None:
        """Remove what was written for an organisation while it was being deleted."""
        if await self._store.control.was_deleted(organization_id):
            await self.remove(organization_id)

    async def tidy(self) -> None:
        """Remove the files of deleted organisations, and move old exports to the present layout.

        Raises:
            UnavailableError: the file system refuses.
        """
        left = await asyncio.to_thread(self._directory.leftovers)
        is_old = not self._is_tidy and await asyncio.to_thread(self._directory.may_have_old_exports)
        if left or is_old:
            organizations = await self._store.control.list_organizations()
            known = {organization.id for organization in organizations}
            for organization_id in set(left) - known:
                await self.remove_if_deleted(organization_id)
            if is_old:
                await self._move_old_exports(known)
        self._is_tidy = True

    async def _move_old_exports(self, known: Collection[OrganizationId]) -> None:
        try:
            unclaimed = await asyncio.to_thread(self._directory.move_old_exports, known)
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


class FileQuota:
    """Claims quota for the files of one export before they are written.

    The directory is measured before and after, so that neither files removed by hand nor claims for
    files that were not written count.
    """

    def __init__(
        self, store: OrganizationStore, principal: Principal, files: OrganizationFiles
    ) -> None:
        self._store = store
        self._principal = principal
        self._files = files

    @asynccontextmanager
    async def counting(self) -> AsyncGenerator[None]:
        """Measure the files around the block that writes them."""
        await self._measure()
        try:
            yield
        finally:
            await self._measure()

    async def claim(self, files: Mapping[SafePath, bytes]) -> None:
        """Count files that are about to be written, less what they replace.

        Raises:
            QuotaExceededError: they do not fit the quota any more.
        """
        added = await asyncio.to_thread(_growth, files)
        await self._store.add_file_bytes(added, quota=self._principal.quota)

    async def _measure(self) -> None:
        counted = await self._files.counted_bytes(self._principal.organization_id)
        await self._store.put_file_bytes(counted)


def _growth(files: Mapping[SafePath, bytes]) -> int:
    return sum(
        len(content) - path.size() if path.kind() == "file" else file_bytes(len(content))
        for path, content in files.items()
    )

"""The bytes of an organisation's files, counted towards its quota before they are written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from engram.care.data_directory import file_bytes
from engram.care.paths import Place
from engram.model.access import Principal
from engram.service.files import Files
from engram.storage.organization import OrganizationStore


class FileQuota:
    """Counts what one export writes.

    What lies in the directory is measured before and after, so that files which somebody removed by
    hand count no longer, and neither does what was counted and not written.
    """

    def __init__(self, store: OrganizationStore, principal: Principal, files: Files) -> None:
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

    async def claim(self, pages: Mapping[Place, bytes]) -> None:
        """Count pages that are about to be written, less what they replace.

        Raises:
            QuotaExceededError: they do not fit the quota any more.
        """
        added = await asyncio.to_thread(_growth, pages)
        await self._store.add_file_bytes(added, quota=self._principal.quota)

    async def _measure(self) -> None:
        counted = await self._files.counted_bytes(self._principal.organization_id)
        await self._store.put_file_bytes(counted)


def _growth(pages: Mapping[Place, bytes]) -> int:
    return sum(
        len(page) - place.size() if place.kind() == "file" else file_bytes(len(page))
        for place, page in pages.items()
    )

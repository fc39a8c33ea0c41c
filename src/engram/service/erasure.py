"""Use cases of erasure: count, erase, and the receipts."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from engram import limits
from engram.errors import StoreBusyError
from engram.model.access import Principal
from engram.model.erasure import (
    ErasureCounts,
    ErasureReceipt,
    ErasureRequest,
)
from engram.model.fields import check_range
from engram.model.ids import ErasureId, OrganizationId
from engram.model.value import replace
from engram.service import Tools, UseCases
from engram.service.known_backups import backups_holding
from engram.service.organization_files import OrganizationFiles
from engram.storage.organization import OrganizationStore


class Erasure(UseCases):
    """Erases a conversation, a project or a subject for good."""

    def __init__(self, tools: Tools, files: OrganizationFiles) -> None:
        super().__init__(tools)
        self._files = files

    async def count(self, principal: Principal, request: ErasureRequest) -> ErasureCounts:
        """Return how much an erasure would remove; nothing is changed."""
        store = await self._open(principal, "admin", "delete")
        return ErasureCounts(removed=await store.erasing.count(request))

    async def erase(self, principal: Principal, request: ErasureRequest) -> ErasureReceipt:
        """Make something invisible in every process, and erase it, in the background if that takes long."""
        store = await self._open(principal, "admin", "delete")
        receipt = await store.erasing.begin(request, actor=principal.actor)
        await store.erasing.hide(receipt.id)
        # A file that others hold is written anew by the background.
        with suppress(StoreBusyError):
            await self._tools.background.erasing.finish(
                store, receipt.id, within_s=limits.ERASURE_WAIT_S
            )
        self._tools.background.announce_work(principal.organization_id, "erasing", "jobs")
        return await self._completed(store, await store.erasing.get(receipt.id))

    async def get(self, principal: Principal, erasure_id: ErasureId) -> ErasureReceipt:
        """Return the receipt of an erasure."""
        store = await self._open(principal, "admin")
        return await self._completed(store, await store.erasing.get(erasure_id))

    async def list(self, principal: Principal, *, limit: int) -> tuple[ErasureReceipt, ...]:
        """Return the newest receipts, the newest first."""
        store = await self._open(principal, "admin")
        check_range("limit", limit, minimum=1, maximum=limits.ERASURE_PAGE_MAX)
        found = await store.erasing.list(limit=limit)
        return tuple([await self._completed(store, receipt) for receipt in found])

    async def _completed(self, store: OrganizationStore, receipt: ErasureReceipt) -> ErasureReceipt:
        """Return a receipt that says who still holds what was erased, as is known now."""
        before = receipt.finished_at or self._tools.clock.now()
        known = backups_holding(self._tools.home, before=before)
        return replace(
            receipt,
            backups=known.backups,
            still_held=(
                *store.tenant.database.still_held,
                *known.unknown,
                *await self._exports_holding(store.organization_id, before=before),
            ),
        )

    async def _exports_holding(
        self, organization_id: OrganizationId, *, before: datetime
    ) -> tuple[str, ...]:
        """Return in words which files of the organisation may hold what was erased."""
        if self._tools.data_directory is None:
            return ()
        paths = await self._files.list_exports(organization_id, before=before)
        listed = [_held_by(path) for path in paths[: limits.ERASURE_EXPORTS_LISTED]]
        more = len(paths) - len(listed)
        return (*listed, f"{more:,} more such exports") if more else tuple(listed)


def _held_by(path: str) -> str:
    return f"the export {path} in the directory of the organisation, made before: remove it"

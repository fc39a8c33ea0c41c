"""What an organisation may see of itself, and its own end."""

from __future__ import annotations

from datetime import datetime
from heapq import merge
from itertools import islice

from engram import limits
from engram.model.access import AccountDeletion, AuditEntry, Principal
from engram.model.checks import check_range
from engram.model.status import Status, Usage
from engram.service.account_deletion import delete_organization
from engram.service.files import Files
from engram.service.meaning import Meaning
from engram.service.quota import find_quota_warning
from engram.storage.store import Store

USAGE_DAYS = 30
"""That are shown unless others are asked for."""


class Account:
    """Status, usage, audit and deletion of the organisation that asks."""

    def __init__(self, store: Store, meaning: Meaning, *, files: Files) -> None:
        self._store = store
        self._files = files
        self._meaning = meaning

    async def status(self, principal: Principal) -> Status:
        """Return what is stored and how it is searched."""
        principal.require("read")
        store = await self._store.organization(principal.organization_id)
        return Status(
            counters=await store.counters(),
            embedder=await self._meaning.embedder_name(),
            degraded=(*self._meaning.degraded, *await self._meaning.changed(store)),
        )

    async def usage(self, principal: Principal, *, days: int = USAGE_DAYS) -> Usage:
        """Return what is used of the quota, and what was done on the last days."""
        principal.require("read")
        check_range("days", days, minimum=1, maximum=limits.USAGE_DAYS_MAX)
        store = await self._store.organization(principal.organization_id)
        counters = await store.counters()
        return Usage(
            messages=counters.messages,
            content_bytes=counters.content_bytes,
            stored_bytes=counters.use.stored_bytes,
            quota=principal.quota,
            days=await self._store.control.list_usage(principal.organization_id, limit=days),
        )

    async def quota_warning(self, principal: Principal) -> str | None:
        """Return the warning that is due if most of the quota is used, and log it."""
        store = await self._store.organization(principal.organization_id)
        return await find_quota_warning(principal, store)

    async def audit(
        self, principal: Principal, *, limit: int, before: datetime | None = None
    ) -> tuple[AuditEntry, ...]:
        """Return the newest audit rows of the organisation, newest first."""
        principal.require("admin")
        check_range("limit", limit, minimum=1, maximum=limits.AUDIT_PAGE_MAX)
        store = await self._store.organization(principal.organization_id)
        own = await store.list_audit(limit=limit, before=before)
        control = await self._store.control.list_audit(
            principal.organization_id, limit=limit, before=before
        )
        newest_first = merge(own, control, key=lambda entry: entry.at, reverse=True)
        return tuple(islice(newest_first, limit))

    async def delete_account(self, principal: Principal, *, organization: str) -> AccountDeletion:
        """Remove the organisation of that name with its keys, its files and everything it stored.

        Raises:
            InvalidRequestError: the organisation has another name.
        """
        principal.require("admin", "delete")
        deleted = await delete_organization(
            self._store, principal.organization_id, name=organization, actor=principal.actor
        )
        await self._files.remove(principal.organization_id)
        return deleted

"""Use cases of an organisation about itself: status, usage, audit trail, deletion."""

from __future__ import annotations

import asyncio
from datetime import datetime
from heapq import merge
from itertools import islice

from engram import limits
from engram.errors import InvalidRequestError, UnavailableError
from engram.model.access import AccountDeletion, AuditEntry, Principal
from engram.model.checks import check_range
from engram.model.ids import OrganizationId
from engram.model.status import Status, Usage
from engram.search.query import EmbedderStatus
from engram.service.access.usage import find_quota_warning
from engram.service.organization_files import OrganizationFiles
from engram.service.use_case import Tools, UseCases
from engram.storage.store import Store

USAGE_DAYS = 30
"""The default of `usage`."""


class Account(UseCases):
    """Status, usage, audit and deletion of the organisation that asks."""

    def __init__(self, tools: Tools, files: OrganizationFiles) -> None:
        super().__init__(tools)
        self._files = files
        self._embedders = EmbedderStatus(tools.tiers)

    async def status(self, principal: Principal) -> Status:
        """Return what is stored and how it is searched."""
        store = await self._open(principal, "read")
        return Status(
            counters=await store.counters(),
            embedder=await self._embedders.embedder_name(),
            degraded=(*self._embedders.degraded, *await self._embedders.find_mismatch(store)),
        )

    async def ping(self, principal: Principal) -> datetime:
        """Read from the organisation's store, and return the present moment.

        Raises:
            UnavailableError: it does not answer in time.
        """
        try:
            async with asyncio.timeout(limits.PING_S):
                await (await self._open(principal, "read")).counters()
        except TimeoutError as exc:
            raise UnavailableError(f"the store did not answer within {limits.PING_S} s") from exc
        return self._tools.clock.now()

    async def usage(self, principal: Principal, *, days: int = USAGE_DAYS) -> Usage:
        """Return what is used of the quota, and what was done on the last days."""
        store = await self._open(principal, "read")
        check_range("days", days, minimum=1, maximum=limits.USAGE_DAYS_MAX)
        counters = await store.counters()
        return Usage(
            messages=counters.messages,
            content_bytes=counters.content_bytes,
            stored_bytes=counters.use.stored_bytes,
            quota=principal.quota,
            days=await self._tools.store.control.list_usage(principal.organization_id, limit=days),
        )

    async def quota_warning(self, principal: Principal) -> str | None:
        """Return the warning that is due if most of the quota is used, and log it."""
        store = await self._tools.store.organization(principal.organization_id)
        return await find_quota_warning(principal, store)

    async def audit(
        self, principal: Principal, *, limit: int, before: datetime | None = None
    ) -> tuple[AuditEntry, ...]:
        """Return the newest audit rows of the organisation, newest first."""
        store = await self._open(principal, "admin")
        check_range("limit", limit, minimum=1, maximum=limits.AUDIT_PAGE_MAX)
        own = await store.list_audit(limit=limit, before=before)
        control = await self._tools.store.control.list_audit(
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
            self._tools.store, principal.organization_id, name=organization, actor=principal.actor
        )
        await self._files.remove(principal.organization_id)
        return deleted


async def delete_organization(
    store: Store, organization_id: OrganizationId, *, name: str | None, actor: str
) -> AccountDeletion:
    """Remove an organisation, its keys and everything it stored; return a receipt.

    Raises:
        NotFoundError: the id is unknown.
        InvalidRequestError: `name` is given and is not its name.
    """
    organization = await store.control.get_organization(organization_id)
    if name is not None and name != organization.name:
        message = f"must be the organisation's name, {organization.name!r}, to delete it"
        raise InvalidRequestError(message, field="organization")
    counters = await (await store.organization(organization_id)).counters()
    removed = {
        "conversations": counters.conversations,
        "messages": counters.messages_of_conversations,
        "memories": counters.memories,
        "documents": counters.documents,
        "content_bytes": counters.content_bytes,
    }
    receipt = await store.control.delete_organization(organization_id, actor=actor, details=removed)
    return AccountDeletion(
        receipt=receipt.id,
        organization_id=organization_id,
        deleted_at=receipt.at,
        removed={**removed, "keys": receipt.details["keys"]},
    )

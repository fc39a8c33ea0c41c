"""Use cases about whole organisations: a caller's own account, and what the operator does with all of them."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice

from engram import limits
from engram.errors import (
    HeldError,
    InvalidRequestError,
    StorageError,
    StoreBusyError,
    UnavailableError,
)
from engram.model.access import (
    KEY_SCOPES,
    OPERATOR,
    AccountDeletion,
    AuditEntry,
    KeyDraft,
    NewKey,
    Organization,
    OrganizationChange,
    OrganizationDraft,
    Principal,
)
from engram.model.fields import check_range
from engram.model.ids import OrganizationId
from engram.model.status import BackfillReport, Counters, Coverage, Finding, Status, Usage
from engram.model.value import Value
from engram.search.query import EmbedderStatus
from engram.service import Tools, UseCases
from engram.service.access.usage import find_quota_warning
from engram.service.known_backups import backups_holding
from engram.service.organization_files import OrganizationFiles
from engram.service.work.schedule import open_each
from engram.storage.control.store import ControlStore

logger = logging.getLogger(__name__)

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
        counters = await store.counters()
        return Status(
            counters=counters,
            pending_since=await store.oldest_unembedded() if counters.pending else None,
            embedder=await self._embedders.embedder_name(),
            degraded=(*self._embedders.degraded, *await self._embedders.find_mismatch(store)),
            scrub=await store.scrubbing.scrub_state(),
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
            messages=counters.use.messages,
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
        return await delete_organization(
            self._tools,
            principal.organization_id,
            name=organization,
            actor=principal.actor,
            files=self._files,
        )


async def delete_organization(
    tools: Tools,
    organization_id: OrganizationId,
    *,
    name: str | None,
    actor: str,
    files: OrganizationFiles,
) -> AccountDeletion:
    """Remove an organisation, its keys and everything it stored; return a receipt.

    Raises:
        NotFoundError: the id is unknown.
        InvalidRequestError: `name` is given and is not its name.
        HeldError: it has a legal hold.
    """
    store, control = tools.store, tools.store.control
    organization = await control.get_organization(organization_id)
    if name is not None and name != organization.name:
        message = f"must be the organisation's name, {organization.name!r}, to delete it"
        raise InvalidRequestError(message, field="organization")
    opened = await store.organization(organization_id)
    for hold in await opened.retention.list_holds():
        raise HeldError(organization_id, hold=hold.id, reason=hold.reason)
    counters = await opened.counters()
    removed = {
        "conversations": counters.conversations,
        "messages": counters.messages_of_conversations,
        "memories": counters.memories,
        "documents": counters.documents,
        "content_bytes": counters.content_bytes,
    }
    receipt = await control.delete_organization(organization_id, actor=actor, details=removed)
    await files.remove(organization_id)
    known = backups_holding(tools.home, before=receipt.at)
    return AccountDeletion(
        receipt=receipt.id,
        organization_id=organization_id,
        deleted_at=receipt.at,
        removed={**removed, "keys": receipt.details["keys"]},
        files=(*opened.tenant.database.files, *await _rewrite(control)),
        backups=known.backups,
        still_held=(*opened.tenant.database.still_held, *known.unknown),
    )


async def _rewrite(control: ControlStore) -> tuple[str, ...]:
    """Write the control file anew, which has had the names of keys; return the names of files."""
    try:
        return await control.rewrite()
    except StoreBusyError:
        logger.warning("the control file is in use; names of deleted keys may be in its free space")
        return ()


class OrganizationStats(Value):
    """One organisation and its counters."""

    organization: Organization
    counters: Counters


class Operator(UseCases):
    """Organisations, and maintenance over all of them; the caller is authenticated as the operator."""

    def __init__(self, tools: Tools, files: OrganizationFiles) -> None:
        super().__init__(tools)
        self._files = files
        self._embedders = EmbedderStatus(tools.tiers)
        self._checking = asyncio.Lock()
        self._written_at = -math.inf
        self.homes_away: Sequence[str] = ()
        """The homes that were away at the last check; see `Store.list_homes_away`."""

    async def create_organization(
        self, draft: OrganizationDraft, *, actor: str = OPERATOR
    ) -> tuple[Organization, NewKey]:
        """Add an organisation with a first key."""
        control = self._tools.store.control
        organization = await control.create_organization(draft, actor=actor)
        key = await control.create_key(organization.id, KeyDraft(name="first key"), actor=actor)
        return organization, key

    async def act_for(self, organization_id: OrganizationId) -> Principal:
        """Return the credential with which the operator acts for one organisation.

        Raises:
            NotFoundError: the id is unknown.
        """
        organization = await self._tools.store.control.get_organization(organization_id)
        return Principal(
            organization_id=organization.id,
            actor=OPERATOR,
            scopes=frozenset(KEY_SCOPES),
            quota=organization.quota,
        )

    async def list_organizations(self) -> tuple[Organization, ...]:
        """Return every organisation, oldest first."""
        return await self._tools.store.control.list_organizations()

    async def change_organization(
        self,
        organization_id: OrganizationId,
        change: OrganizationChange,
        *,
        actor: str = OPERATOR,
    ) -> Organization:
        """Give an organisation another name or quota; every process holds to it within a second.

        Raises:
            NotFoundError: the id is unknown.
        """
        changed = await self._tools.store.control.change_organization(
            organization_id, change, actor=actor
        )
        self._tools.access.forget_keys(organization_id)
        return changed

    async def delete_organization(
        self, organization_id: OrganizationId, *, name: str | None = None, actor: str = OPERATOR
    ) -> AccountDeletion:
        """Remove an organisation with its files and everything it stored; `name`, if given, must be its."""
        return await delete_organization(
            self._tools, organization_id, name=name, actor=actor, files=self._files
        )

    async def backfill_compress(self, *, batch_size: int = 500) -> BackfillReport:
        """Compress up to `batch_size` legacy rows, over as many organisations as that takes."""
        check_range("batch_size", batch_size, minimum=1, maximum=limits.BACKFILL_BATCH_MAX)
        left, reports = batch_size, list[BackfillReport]()
        async for _, store in open_each(self._tools.store):
            report = await store.compress_backfill(batch_size=left)
            reports.append(report)
            # A batch that is used up still counts what remains in the other organisations.
            left -= report.processed
        return BackfillReport(
            processed=sum(report.processed for report in reports),
            compressed=sum(report.compressed for report in reports),
            skipped_too_small=sum(report.skipped_too_small for report in reports),
            remaining=sum(report.remaining for report in reports),
        )

    async def reindex(self) -> int:
        """Rebuild every organisation's windows and word indexes; return the messages read."""
        return sum([await store.reindex() async for _, store in open_each(self._tools.store)])

    async def reindex_organization(self, organization_id: OrganizationId) -> int:
        """Rebuild one organisation's windows and word indexes; return the messages read."""
        store = await self._tools.store.organization(organization_id)
        return await store.reindex()

    async def coverage(self) -> tuple[Coverage, ...]:
        """Return how complete each organisation's indexes are."""
        return tuple([await store.coverage() async for _, store in open_each(self._tools.store)])

    async def stats(self) -> tuple[OrganizationStats, ...]:
        """Return the counters of each organisation."""
        stats = [
            OrganizationStats(organization=organization, counters=await store.counters())
            async for organization, store in open_each(self._tools.store)
        ]
        return tuple(stats)

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the reason codes for what searches have to do without."""
        return self._embedders.degraded

    async def probe_embedders(self) -> None:
        """Probe the embedders, so that `degraded` is right before the first search."""
        await self._embedders.probe()

    async def check_ready(self) -> None:
        """Read from the store and write to it, raising the error that a request would meet.

        A write that succeeded just now counts. A home that is away is no error: others are served.

        Raises:
            UnavailableError: the store did not answer in time.
        """
        try:
            async with asyncio.timeout(limits.READY_S), self._checking:
                is_due = time.monotonic() > self._written_at + limits.READY_WRITE_S
                await self._tools.store.check(by_writing=is_due)
                if is_due:
                    self.homes_away = await self._tools.store.list_homes_away()
                    self._written_at = time.monotonic()
        except TimeoutError as exc:
            raise UnavailableError(f"no answer within {limits.READY_S} s") from exc


class Doctor(UseCases):
    """Verifies and repairs stores, one organisation at a time to bound memory."""

    async def examine_control(self) -> Sequence[Finding]:
        """Return the organisations and keys that are not as they were stored."""
        return await self._tools.store.control.verify()

    async def count_unhashed(self) -> int:
        """Return how many rows an older version has stored, which nothing proves yet."""
        counts = [
            await store.scrubbing.count_unhashed()
            async for _, store in open_each(self._tools.store)
        ]
        return await self._tools.store.control.count_unhashed() + sum(counts)

    async def hash_rows(self) -> int:
        """Hash the rows that an older version has stored; return how many."""
        hashed = [
            await store.scrubbing.hash_rows() async for _, store in open_each(self._tools.store)
        ]
        return await self._tools.store.control.hash_rows() + sum(hashed)

    async def patients(self) -> Sequence[Organization]:
        """Return the organisations to verify."""
        return await self._tools.store.control.list_organizations()

    async def examine(self, organization: Organization) -> AsyncGenerator[Finding]:
        """Yield every finding in one organisation's store."""
        try:
            store = await self._tools.store.organization(organization.id)
            async for finding in store.verify():
                yield finding
        except StorageError as exc:
            # A server that is down says nothing of what it has stored.
            is_away = isinstance(exc, StoreBusyError)
            at = f"at the home '{organization.home}': " if organization.home else ""
            yield Finding(
                organization_id=organization.id,
                check="availability" if is_away else "file",
                message=f"{at}{exc.message}",
                repairable=False,
            )

    async def examine_files(self) -> Sequence[Finding]:
        """Return what is wrong with the files of the store as a whole."""
        return await self._tools.store.check_files()

    async def repair(self, organization: Organization) -> int:
        """Rebuild the derived rows of one organisation's store; return how many."""
        store = await self._tools.store.organization(organization.id)
        return await store.repair()

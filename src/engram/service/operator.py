"""Use cases of the operator: organisations, maintenance over all of them, verification and repair."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from engram import limits
from engram.errors import StorageError
from engram.model.access import (
    KEY_SCOPES,
    OPERATOR,
    AccountDeletion,
    KeyDraft,
    NewKey,
    Organization,
    OrganizationChange,
    OrganizationDraft,
    Principal,
)
from engram.model.checks import check_range
from engram.model.ids import OrganizationId
from engram.model.status import BackfillReport, Counters, Coverage, Finding
from engram.model.value import Value
from engram.search.query import EmbedderStatus
from engram.service.account import delete_organization
from engram.service.organization_files import OrganizationFiles
from engram.service.use_case import Tools, UseCases
from engram.service.work.schedule import open_each


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
        deleted = await delete_organization(
            self._tools.store, organization_id, name=name, actor=actor
        )
        await self._files.remove(organization_id)
        return deleted

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

    async def ping(self) -> None:
        """Read from the store, raising the error that a request would meet."""
        await self._tools.store.control.ping()


class Doctor(UseCases):
    """Verifies and repairs stores, one organisation at a time to bound memory."""

    async def patients(self) -> Sequence[Organization]:
        """Return the organisations to verify."""
        return await self._tools.store.control.list_organizations()

    async def examine(self, organization: Organization) -> AsyncIterator[Finding]:
        """Yield every finding in one organisation's store."""
        try:
            store = await self._tools.store.organization(organization.id)
            async for finding in store.verify():
                yield finding
        except StorageError as exc:
            yield Finding(
                organization_id=organization.id,
                check="file",
                message=exc.message,
                repairable=False,
            )

    async def repair(self, organization: Organization) -> int:
        """Rebuild the derived rows of one organisation's store; return how many."""
        store = await self._tools.store.organization(organization.id)
        return await store.repair()

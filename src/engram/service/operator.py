"""What the operator of an installation does across organisations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from engram import limits
from engram.errors import NotFoundError
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
from engram.model.status import BackfillReport, Counters, Coverage
from engram.service.account_deletion import delete_organization
from engram.service.files import Files
from engram.service.meaning import Meaning
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationStats:
    """One organisation and what it holds."""

    organization: Organization
    counters: Counters


class Operator:
    """Organisations, and upkeep over all of them. The caller has proved to be the operator."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        *,
        files: Files,
        forget_keys: Callable[[OrganizationId | None], None],
    ) -> None:
        """Work on a store; `forget_keys` is told whose keys may not be believed any more."""
        self._store = store
        self._files = files
        self._meaning = meaning
        self._forget_keys = forget_keys

    async def create_organization(
        self, draft: OrganizationDraft, *, actor: str = OPERATOR
    ) -> tuple[Organization, NewKey]:
        """Add an organisation with a first key."""
        control = self._store.control
        organization = await control.create_organization(draft, actor=actor)
        key = await control.create_key(organization.id, KeyDraft(name="first key"), actor=actor)
        return organization, key

    async def act_for(self, organization_id: OrganizationId) -> Principal:
        """Return the credential with which the operator acts for one organisation.

        Raises:
            NotFoundError: the id is unknown.
        """
        organization = await self._store.control.get_organization(organization_id)
        return Principal(
            organization_id=organization.id,
            actor=OPERATOR,
            scopes=frozenset(KEY_SCOPES),
            quota=organization.quota,
        )

    async def list_organizations(self) -> tuple[Organization, ...]:
        """Return every organisation, oldest first."""
        return await self._store.control.list_organizations()

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
        changed = await self._store.control.change_organization(
            organization_id, change, actor=actor
        )
        self._forget_keys(organization_id)
        return changed

    async def delete_organization(
        self, organization_id: OrganizationId, *, name: str | None = None, actor: str = OPERATOR
    ) -> AccountDeletion:
        """Remove an organisation with its files and everything it stored; `name`, if given, must be its."""
        deleted = await delete_organization(self._store, organization_id, name=name, actor=actor)
        await self._files.remove(organization_id)
        return deleted

    async def backfill_compress(self, *, batch_size: int = 500) -> BackfillReport:
        """Compress up to `batch_size` legacy rows, over as many organisations as that takes."""
        check_range("batch_size", batch_size, minimum=1, maximum=limits.BACKFILL_BATCH_MAX)
        left, reports = batch_size, list[BackfillReport]()
        async for store in self._stores():
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
        return sum([await store.reindex() async for store in self._stores()])

    async def reindex_organization(self, organization_id: OrganizationId) -> int:
        """Rebuild one organisation's windows and word indexes; return the messages read."""
        store = await self._store.organization(organization_id)
        return await store.reindex()

    async def coverage(self) -> tuple[Coverage, ...]:
        """Return how complete each organisation's indexes are."""
        return tuple([await store.coverage() async for store in self._stores()])

    async def stats(self) -> tuple[OrganizationStats, ...]:
        """Return what each organisation holds."""
        stats = list[OrganizationStats]()
        for organization in await self.list_organizations():
            store = await self._store.organization(organization.id)
            stats.append(
                OrganizationStats(organization=organization, counters=await store.counters())
            )
        return tuple(stats)

    @property
    def degraded(self) -> tuple[str, ...]:
        """What searches have to do without."""
        return self._meaning.degraded

    async def probe_embedders(self) -> None:
        """Find out what `degraded` should say, before anybody searches."""
        await self._meaning.probe()

    async def ping(self) -> None:
        """Really read the store; raise what a request would meet."""
        await self._store.control.ping()

    async def _stores(self) -> AsyncIterator[OrganizationStore]:
        for organization in await self.list_organizations():
            try:
                store = await self._store.organization(organization.id)
            except NotFoundError:
                continue  # deleted meanwhile
            yield store

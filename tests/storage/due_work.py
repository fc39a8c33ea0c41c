"""Claims and settlements of due work."""

from __future__ import annotations

from datetime import timedelta

from engram.model.status import WORK_KINDS, DueWork, WorkKind
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

LEASE = timedelta(minutes=5)


async def claim(store: Store, *kinds: WorkKind) -> set[DueWork]:
    """Claim all that is due, of some kinds or of all."""
    return set(await store.claim_due(kinds or WORK_KINDS, lease=LEASE, limit=1_000))


async def settle_all(organization: OrganizationStore) -> None:
    """Do what is due in an organisation without messages, and settle it."""
    scrubbing = organization.scrubbing
    progress = await scrubbing.claim_scrub(owner="test", lease=LEASE)
    while progress is not None and progress.table is not None:
        _, progress = await scrubbing.scrub_step(progress)
    if progress is not None:
        await scrubbing.put_scrub(progress, owner="test")
    for kind in WORK_KINDS:
        await organization.settle_due(kind)


def work(organization: OrganizationStore, kind: WorkKind) -> DueWork:
    """Return the work of a kind of an organisation."""
    return DueWork(organization_id=organization.organization_id, kind=kind)


async def due_kinds(store: Store, organization_id: str) -> set[WorkKind]:
    """Claim all that is due; return the kinds that one organisation has."""
    found = await claim(store)
    return {each.kind for each in found if each.organization_id == organization_id}

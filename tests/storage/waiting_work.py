"""Background work of every kind: left behind in a store, and claimed there again."""

from __future__ import annotations

from datetime import timedelta

from engram.model.ids import DocumentId, MessageKey
from engram.storage.organization import OrganizationStore
from tests.storage.document_drafts import claim, upload
from tests.storage.embedded import append_meant

LEASE = timedelta(minutes=1)


async def leave_work(organization: OrganizationStore) -> None:
    """Leave a job, two messages and two documents; of the documents one is held by a dead process."""
    await organization.enqueue_job("train", "messages")
    await append_meant(organization, "one", "two")
    for text in (b"held when its process died", b"not begun"):
        await upload(organization, text)
    await claim(organization, owner="dead")


async def claim_work(
    organization: OrganizationStore, *, owner: str
) -> tuple[list[str], list[MessageKey], set[DocumentId]]:
    """Claim all that can be had: the subjects of jobs, the keys of messages, and the documents."""
    jobs = await organization.claim_jobs(["train"], owner=owner, lease=LEASE, limit=9)
    messages = await organization.claim_unembedded(
        owner=owner, lease=LEASE, limit=9, characters_max=10_000
    )
    first, second = [await claim(organization, owner=owner) for _ in range(2)]
    documents = {each.id for each in (first, second) if each is not None}
    return [job.subject for job in jobs], [message.key for message in messages], documents

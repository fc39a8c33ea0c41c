"""Append and index in two child processes at once, of which one after the other is killed."""

from __future__ import annotations

import sys
from datetime import datetime

from engram.clock import SystemClock
from engram.embedding.tiers import Tiers
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from engram.service.work.indexing import LEASE, Indexer
from tests.meaning.hashing import QuickEmbedder, ToldEmbedder
from tests.meaning.programs.killing import keep_killing, tell
from tests.storage.places import store_at

MESSAGES = 24
STEPS_MAX = 16


class LaterClock(SystemClock):
    """The machine's clock, so much later that leases of processes killed before have ended."""

    def __init__(self, generation: int) -> None:
        self._later = generation * 2 * LEASE

    def now(self) -> datetime:
        return super().now() + self._later


async def work_forever(place: str, organization_id: OrganizationId, generation: int) -> None:
    """Append and index without end; write a line before and after every step."""
    store = store_at(place, clock=LaterClock(generation))
    await store.open()
    tiers = Tiers.of(deep=ToldEmbedder(tell), instant=QuickEmbedder())
    indexer = Indexer(store, tiers, owner=f"generation {generation}")
    organization = await store.organization(organization_id)
    while True:
        drafts = tuple(draft(generation, number) for number in range(MESSAGES))
        tell()
        await organization.append_messages(
            AppendRequest(messages=drafts),
            actor="local",
            quota=Quota(),
            indexing=await indexer.index_new(drafts),
        )
        tell()
        await indexer.work(organization_id)


def draft(generation: int, number: int) -> MessageDraft:
    """Return a message; every fourth is so long that it has several passages."""
    words = 50 if number % 4 == 0 else 3
    text = " ".join(f"{generation}.{number}.{i}" for i in range(words))
    return MessageDraft(role="user", content=f"{text}.")


if __name__ == "__main__":
    keep_killing(work_forever, sys.argv[1:], steps_max=STEPS_MAX)

"""Index documents in two child processes at once, of which one after the other is killed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from engram.clock import SystemClock
from engram.embedding.tiers import Tiers
from engram.model.ids import OrganizationId
from engram.service.work.document_indexing import CONVERSION_LEASE, DocumentIndexing
from engram.service.work.indexing import Indexer
from engram.storage.store import Store
from tests.meaning.hashing import QuickEmbedder, ToldEmbedder
from tests.meaning.programs.killing import keep_killing, tell
from tests.storage.places import store_at

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

STEPS_MAX = 12


class LaterClock(SystemClock):
    """The machine's clock, so much later that leases of processes killed before have ended."""

    def __init__(self, generation: int) -> None:
        self._later = generation * 2 * CONVERSION_LEASE

    def now(self) -> datetime:
        return super().now() + self._later


class TellingEmbedder(QuickEmbedder):
    """Says before each batch that it was reached."""

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        tell()
        return await super().embed_passages(passages)


async def work_forever(place: str, organization_id: OrganizationId, generation: int) -> None:
    """Index without end; write a line before and after every step, and amid of it."""
    store = store_at(place, clock=LaterClock(generation))
    await store.open()
    indexing = indexing_on(store, owner=f"generation {generation}")
    while True:
        tell()
        await indexing.work(organization_id)


def indexing_on(store: Store, *, owner: str) -> DocumentIndexing:
    """Return the work of one process on documents, which tells each step."""
    tiers = Tiers.of(deep=ToldEmbedder(tell), instant=TellingEmbedder())
    return DocumentIndexing(store, Indexer(store, tiers, owner=owner), owner=owner)


if __name__ == "__main__":
    keep_killing(work_forever, sys.argv[1:], steps_max=STEPS_MAX)

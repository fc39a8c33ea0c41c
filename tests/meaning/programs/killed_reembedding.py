"""Append and re-embed in two child processes at once, of which one after the other is killed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.clock import SystemClock
from engram.embedding.tiers import Tiers
from engram.errors import ConflictError
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, ConversationDraft
from engram.model.ids import OrganizationId
from engram.service.work.indexing import Indexer
from engram.service.work.reembedding import Reembedding
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.meaning.hashing import QuickEmbedder
from tests.meaning.programs.killed_indexing import draft
from tests.meaning.programs.killing import keep_killing, tell
from tests.service.embedders import NamedEmbedder
from tests.storage.places import store_at

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

DIMENSIONS = {"red": 48, "green": 64, "blue": 80}
MESSAGES = 24
STEPS_MAX = 24


class TellingEmbedder(NamedEmbedder):
    """Says before each batch that it was reached."""

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        tell()
        return await super().embed_passages(passages)


@dataclass(frozen=True, slots=True)
class Worker:
    """What one process does."""

    store: Store
    organization: OrganizationStore
    generation: int

    async def work_forever(self) -> None:
        """Append as a server with the present embedder would, and re-embed; again and again."""
        while True:
            stored = await self.organization.identities()
            deep = "red" if stored.deep is None else name_in(stored.deep)
            await self.append(deep)
            tell()
            try:
                await self.reembed(self.target(deep, stored.next))
            except ConflictError:
                continue  # The other process has begun with another embedder.

    def target(self, deep: str, half_built: str | None) -> str:
        """Return what to re-embed with: what is half built, if not sometimes something else."""
        if half_built is not None and self.generation % 5:
            return name_in(half_built)
        others = [name for name in DIMENSIONS if name != deep]
        return others[self.generation % 2]

    async def append(self, deep: str) -> None:
        """Append to a new conversation, and delete another one now and then."""
        indexer = self.indexer(deep)
        drafts = tuple(draft(self.generation, number) for number in range(MESSAGES))
        made = [
            await self.organization.create_conversation(ConversationDraft(), actor="local")
            for _ in range(2)
        ]
        for conversation_id in made:
            await self.organization.append_messages(
                AppendRequest(messages=drafts, conversation_id=conversation_id),
                actor="local",
                quota=Quota(),
                indexing=await indexer.index_new(drafts),
            )
        await indexer.work(self.organization.organization_id)
        await self.organization.delete_conversation(made[0], actor="local")

    async def reembed(self, name: str) -> None:
        """Re-embed everything, as the command does."""
        tiers = tiers_of(name)
        work = Reembedding(self.store, tiers, indexer=self.indexer(name))
        await work.reembed(self.organization.organization_id)

    def indexer(self, name: str) -> Indexer:
        return Indexer(self.store, tiers_of(name), owner=f"generation {self.generation}")


def tiers_of(name: str) -> Tiers:
    """Return the embedders of a process that is set to this one."""
    embedder = TellingEmbedder(name, dimensions=DIMENSIONS[name])
    return Tiers.of(deep=embedder, instant=QuickEmbedder())


def name_in(identity: str) -> str:
    return next(name for name in DIMENSIONS if f'"{name}"' in identity)


async def be_killed(place: str, organization_id: OrganizationId, generation: int) -> None:
    """Work until somebody ends it."""
    store = store_at(place, clock=SystemClock())
    await store.open()
    organization = await store.organization(organization_id)
    await Worker(store, organization, generation).work_forever()


if __name__ == "__main__":
    keep_killing(be_killed, sys.argv[1:], steps_max=STEPS_MAX)

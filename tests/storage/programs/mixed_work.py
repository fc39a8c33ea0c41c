"""Append, remember, embed, delete, restore, search, reindex and train in one organisation, as many processes do."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from datetime import timedelta

import numpy as np

from engram.clock import SystemClock
from engram.errors import ConflictError, NotFoundError
from engram.model.access import Quota
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
    MessageQuery,
)
from engram.model.ids import ConversationId, MemoryId, OrganizationId
from engram.model.memory import MemoryChange, MemoryDraft
from engram.model.search import SearchFilters
from engram.model.vectors import Embedded, QueryVector, Tier
from engram.storage.organization import OrganizationStore
from engram.text.analyse import query_terms
from tests.storage.embedded import DEEP, QUICK, indexing_of, passages_of, vector_of
from tests.storage.finding import find_candidates
from tests.storage.places import store_at

ACTOR = "local"
TIERS: tuple[tuple[Tier, str], ...] = (("instant", QUICK), ("deep", DEEP))


async def main(place: str, organization_id: str, name: str, rounds: str) -> None:
    """Do so many things by chance; what must hold at once is checked at once."""
    store = store_at(place, clock=SystemClock())
    await store.open()
    organization = await store.organization(OrganizationId(organization_id))
    worker = Worker(organization, name)
    for number in range(int(rounds)):
        await worker.act(number)
        os.write(sys.stdout.fileno(), f"{name} {number}\n".encode())
    await store.close()


class Worker:
    """One process's share of the work."""

    def __init__(self, organization: OrganizationStore, name: str) -> None:
        self._organization = organization
        self._name = name
        self._chance = random.Random(name)  # noqa: S311 - no secrets
        self._mine: list[ConversationId] = []
        self._memories: list[MemoryId] = []

    async def act(self, number: int) -> None:
        """Do one thing."""
        chance = self._chance.random()
        if chance < 0.1:
            await self._reindex()
        elif chance < 0.15:
            await self._organization.train_dictionary()
        elif chance < 0.25:
            await self._embed()
        elif chance < 0.4 and self._mine:
            conversation_id = self._mine.pop(self._chance.randrange(len(self._mine)))
            await self._remove(conversation_id)
        elif chance < 0.5:
            await self._remember(number)
        elif chance < 0.65 or not self._mine:
            await self._append(await self._begin(), number)
        elif chance < 0.75:
            await self._append(await self._any(), number)
        else:
            await self._append(self._chance.choice(self._mine), number)

    async def _remove(self, conversation_id: ConversationId) -> None:
        """Delete a conversation, or move it to the trash and restore it or remove it from there."""
        trash, chance = self._organization.trash, self._chance.random()
        if chance < 0.4:
            await self._organization.delete_conversation(conversation_id, actor=ACTOR)
            return
        query = MessageQuery(conversation_id=conversation_id)
        receipt = await trash.trash_conversation(
            conversation_id, actor=ACTOR, keep=timedelta(days=chance < 0.9)
        )
        if chance < 0.8:
            await trash.restore(conversation_id, actor=ACTOR)
            page = await self._organization.get_conversation(query)
            if page.total < receipt.messages:
                raise AssertionError(f"{conversation_id} has lost messages in the trash")
            self._mine.append(conversation_id)
        else:
            await trash.purge_expired(actor=ACTOR, limit=2)

    async def _remember(self, number: int) -> None:
        """Store some memories, and change those of before."""
        memories, word = self._organization.memories, f"{self._name}memory{number}"
        drafts = [MemoryDraft(content=f"{word} {part} " + "more " * 30) for part in range(3)]
        stored = await memories.store(
            drafts,
            actor=ACTOR,
            quota=Quota(),
            indexing=indexing_of(
                [draft.content for draft in drafts], tier="instant", identity=QUICK
            ),
        )
        self._memories.extend(one.id for one in stored)
        corrected, forgotten, purged = self._chance.sample(self._memories, 3)
        change = MemoryChange(content=f"{word} corrected")
        after = await memories.restore(corrected, actor=ACTOR)
        await memories.correct(corrected, change, actor=ACTOR, quota=Quota())
        history = await memories.history(corrected)
        if history[-1].memory != after:
            raise AssertionError(f"{word} has lost what it was before")
        await memories.forget(forgotten, reason=None, actor=ACTOR, now=SystemClock().now())
        await memories.purge(purged, actor=ACTOR)
        self._memories.remove(purged)
        found = await find_candidates(self._organization, query_terms(word), limit=10)
        left = len({*(one.id for one in stored), corrected} - {forgotten, purged})
        hits = (found.share_message > 0).sum()
        if hits != left:
            raise AssertionError(f"{word} is found {hits} times and not {left}")

    async def _begin(self) -> ConversationId:
        draft = ConversationDraft(title=self._name)
        conversation_id = await self._organization.create_conversation(draft, actor=ACTOR)
        self._mine.append(conversation_id)
        return conversation_id

    async def _any(self) -> ConversationId:
        """Return some conversation, most likely of another process."""
        page = await self._organization.list_conversations(ConversationQuery(limit=100))
        return self._chance.choice(page.conversations).id

    async def _append(self, conversation_id: ConversationId, number: int) -> None:
        word = f"{self._name}number{number}"
        count = self._chance.randrange(1, 7)
        drafts = tuple(
            MessageDraft(role="user", content=f"{word} part {part} " + "and more text " * 30)
            for part in range(count)
        )
        request = AppendRequest(messages=drafts, conversation_id=conversation_id)
        try:
            receipt = await self._organization.append_messages(
                request,
                actor=ACTOR,
                quota=Quota(),
                indexing=indexing_of(
                    [draft.content for draft in drafts], tier="instant", identity=QUICK
                ),
            )
            await self._check(conversation_id, receipt.first_sequence, word, count)
        except NotFoundError:
            # Another process has deleted its conversation.
            if conversation_id in self._mine:
                raise

    async def _check(
        self, conversation_id: ConversationId, sequence: int, word: str, count: int
    ) -> None:
        query = MessageQuery(conversation_id=conversation_id, around_sequence=sequence)
        page = await self._organization.get_conversation(query)
        terms = query_terms(word)
        filters = SearchFilters(conversation_id=conversation_id)
        vectors = [
            QueryVector(tier=tier, identity=identity, vector=vector_of(word, identity))
            for tier, identity in TIERS
        ]
        found = await find_candidates(
            self._organization, terms, vectors=vectors, filters=filters, limit=1_000
        )
        hits = (found.share_message > 0).sum()
        if sum(message.content.startswith(f"{word} ") for message in page.messages) != count:
            raise AssertionError(f"{word} is not where it was stored")
        if hits != count:
            raise AssertionError(f"{word} is found {hits} times and not {count}")
        new = (found.sequences >= sequence) & (found.sequences < sequence + count)
        compared = (~np.isnan(found.cosine[new])).sum()
        if compared != count:
            raise AssertionError(f"{word} has {compared} vectors and not {count}")

    async def _embed(self) -> None:
        """Give some waiting messages their deep vectors; leases of the dead end on their own."""
        await self._organization.adopt_embedder(DEEP)
        claimed = await self._organization.claim_unembedded(
            owner=self._name, lease=timedelta(seconds=1), limit=20, characters_max=100_000
        )
        embedded = [
            Embedded(key=message.key, passages=passages_of(message.content, DEEP))
            for message in claimed
        ]
        await self._organization.store_vectors(DEEP, embedded, owner=self._name)

    async def _reindex(self) -> None:
        try:
            await self._organization.reindex()
        except ConflictError:
            return  # another process began anew


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

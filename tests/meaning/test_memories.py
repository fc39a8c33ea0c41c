"""Memories by meaning: findable at once, and in one ranking with conversations in every process."""

from __future__ import annotations

from pathlib import Path

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft
from engram.model.recall import ContextRequest, RecallRequest
from engram.model.search import SearchAnswer
from tests.fakes import FakeClock
from tests.meaning.hashing import QuickEmbedder
from tests.meaning.house import House, opened_house
from tests.promises import promise

pytestmark = promise("findable")


def two_tiers() -> Tiers:
    return Tiers.of(deep=HashedEmbedder(), instant=QuickEmbedder())


async def keep(house: House, content: str) -> MemoryId:
    draft = MemoryDraft(content=content)
    (stored,) = (await house.service.memories.store(house.principal, draft)).memories
    return stored.id


def tiers_of(answer: SearchAnswer) -> dict[str, str | None]:
    """Return of which tier the vector of each result is."""
    explained = {
        result.kind: result.messages[0].breakdown if result.messages else result.breakdown
        for result in answer.results
    }
    return {kind: each.vector_tier for kind, each in explained.items() if each is not None}


async def test_a_memory_has_an_instant_vector_at_once_and_a_deep_one_later(tmp_path: Path) -> None:
    async with opened_house(tmp_path, two_tiers(), clock=FakeClock()) as house:
        await house.index_all()
        await house.append("The letter came by post")
        memory_id = await keep(house, "The letter lies on the table")

        first = await house.search("letter")
        await house.index_all()
        later = await house.search("letter")

        assert {result.owner.id for result in first.results} >= {memory_id}
        assert tiers_of(first).keys() == {"conversation", "note"}
        assert set(tiers_of(first).values()) <= {"instant", "deep"}
        assert tiers_of(later) == {"conversation": "deep", "note": "deep"}


async def test_another_process_finds_a_memory_and_its_end(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        opened_house(tmp_path / "store", two_tiers(), clock=clock) as here,
        opened_house(tmp_path / "store", two_tiers(), clock=clock) as there,
    ):
        memory_id = await keep(here, "The letter lies on the table")
        context = ContextRequest(query="where is the letter", min_score=0.0)
        recall = RecallRequest(query="where is the letter")

        found = await there.service.search.fetch_context(here.principal, context)
        recalled = await there.service.search.recall(here.principal, recall)
        await here.service.memories.forget(here.principal, memory_id)
        gone = await there.service.search.fetch_context(here.principal, context)

        assert [entry.id for entry in found.entries] == [memory_id]
        assert [each.memory.id for each in recalled.results] == [memory_id]
        assert recalled.results[0].breakdown.vector_tier is not None
        assert gone.entries == ()
        assert (await there.service.search.recall(here.principal, recall)).results == ()

"""Near-duplicates are merged for good reasons only, and every merge can be undone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engram import limits
from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import ConflictError, NotFoundError
from engram.model.access import OrganizationDraft, Principal
from engram.model.ids import MemoryId
from engram.model.maintenance import Consolidated, ConsolidationRequest
from engram.model.memory import Memory, MemoryChange, MemoryDraft, RelationDraft
from engram.model.recall import MemoryFetch
from engram.service import Service
from engram.settings import Settings
from engram.text.near_duplicates import JACCARD_MIN, compare_characters
from engram.wiring import build_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.embedders import NamedEmbedder
from tests.storage.places import place, store_at

pytestmark = promise("maintenance")

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

__all__ = ["place"]
"""A fixture of another module."""

FACT = "The nightly backup of the billing database runs at two and is kept for thirty days."
NEAR = "The nightly backup of the billing database runs at two, and is kept for thirty days!"
UNLIKE = "Lena prefers tea over coffee in the afternoon, and never takes sugar with it."


class Opposite(HashedEmbedder):
    """Says of every two texts that they mean nothing alike."""

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        vectors = await super().embed_passages(passages)
        vectors[1::2] = -vectors[:1]
        return vectors


class House:
    """One organisation whose memories are looked after."""

    def __init__(self, service: Service, principal: Principal, clock: FakeClock) -> None:
        self.service = service
        self.principal = principal
        self.clock = clock

    async def store(self, content: str, **fields: Any) -> MemoryId:
        """Store a memory, a minute after the last one."""
        self.clock.advance(timedelta(minutes=1))
        draft = MemoryDraft(content=content, **fields)
        return (await self.service.memories.store(self.principal, draft)).memories[0].id

    async def get(self, memory_id: MemoryId) -> Memory:
        fetch = MemoryFetch(id=memory_id)
        return (await self.service.memories.fetch(self.principal, fetch)).memory

    async def consolidate(self, **request: Any) -> Consolidated:
        return await self.service.consolidation.consolidate(
            self.principal, ConsolidationRequest(**request)
        )

    async def merged(self, **request: Any) -> dict[MemoryId, MemoryId]:
        """Consolidate, and return into which memory each was merged."""
        done = await self.consolidate(**request)
        return {merge.merged_id: merge.kept_id for merge in done.merges}


async def _house(
    tmp_path: Path, clock: FakeClock, tiers: Tiers, *, place: str | None = None
) -> AsyncIterator[House]:
    store = store_at(place or str(tmp_path / "store"), clock=clock)
    await store.open()
    settings = Settings(home=tmp_path, embedder=NoEmbedder())
    service = build_service(store, tiers, settings, clock=clock, ids=RandomIds())
    made, _ = await service.operator.create_organization(OrganizationDraft(name="one"))
    yield House(service, await service.operator.act_for(made.id), clock)
    await store.close()


@pytest.fixture
async def house(tmp_path: Path, place: str, clock: FakeClock) -> AsyncIterator[House]:
    """A house with an embedder, on each database."""
    async for house in _house(tmp_path, clock, Tiers.of(deep=HashedEmbedder()), place=place):
        yield house


@pytest.fixture
async def plain(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    """A house without one."""
    async for house in _house(tmp_path, clock, Tiers()):
        yield house


async def test_the_newer_stays_as_it_is_and_the_older_is_kept_in_its_history(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)
    before = await house.get(newer)

    done = await house.consolidate()

    (merge,) = done.merges
    assert (merge.merged_id, merge.kept_id) == (older, newer)
    assert await house.get(newer) == before
    gone = await house.get(older)
    assert (gone.is_searched, gone.content, gone.reason) == (False, FACT, f"merged into {newer}")
    history = await house.service.memories.history(house.principal, older)
    assert [(each.change, each.memory.content) for each in history.versions] == [("merge", FACT)]
    (relation,) = await house.service.memories.relations(house.principal, newer)
    assert (relation.source_id, relation.target_id) == (newer, older)
    assert relation.relation_type == "supersedes"


async def test_a_merge_is_undone_completely(house: House) -> None:
    older = await house.store(FACT, tags=("a",), importance=1)
    newer = await house.store(NEAR, tags=("a", "b"), importance=0)
    before = await house.get(older)
    await house.consolidate()

    (undone,) = await house.service.consolidation.undo(house.principal, [older])

    assert (undone.memory_id, undone.kept) == (older, newer)
    after = await house.get(older)
    for name in (
        "content",
        "tags",
        "importance",
        "valid_from",
        "valid_to",
        "reason",
        "is_searched",
    ):
        assert getattr(after, name) == getattr(before, name)
    assert await house.service.memories.relations(house.principal, newer) == ()


async def test_a_dry_run_changes_nothing_and_foretells_the_run(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)

    planned = await house.merged(dry_run=True)

    assert (await house.get(older)).is_searched
    assert await house.service.memories.relations(house.principal, newer) == ()
    assert planned == await house.merged() == {older: newer}


async def test_a_memory_corrected_later_is_the_newer(house: House) -> None:
    first, second = await house.store(UNLIKE), await house.store(NEAR)
    house.clock.advance(timedelta(hours=1))
    await house.service.memories.correct(house.principal, first, MemoryChange(content=FACT))

    assert await house.merged() == {second: first}


async def test_of_several_all_give_way_to_the_newest(house: House) -> None:
    ids = [await house.store(text) for text in (FACT, NEAR, FACT.upper(), f" {FACT}")]

    assert await house.merged() == dict.fromkeys(ids[:-1], ids[-1])


async def test_similarity_is_not_inherited_through_a_third(plain: House) -> None:
    first = (
        "our quiet garden grows beans, mint, figs and plums behind a low brick wall by the river"
    )
    second = first.replace("our quiet", "our jolly")
    third = second.replace("the river", "the wharf")
    values = [
        compare_characters(*pair) for pair in ((first, second), (second, third), (first, third))
    ]
    assert [value >= JACCARD_MIN for value in values] == [True, True, False]
    ids = [await plain.store(text) for text in (first, second, third)]

    assert await plain.merged() == {ids[1]: ids[2]}


async def test_unlike_and_immutable_and_forgotten_memories_stay(house: House) -> None:
    await house.store(UNLIKE)
    await house.store(FACT, immutable=True)
    gone = await house.store(FACT)
    await house.service.memories.forget(house.principal, gone)
    await house.store(NEAR)

    done = await house.consolidate()

    assert (done.merges, done.examined) == ((), 2)


async def test_memories_of_other_projects_are_not_looked_at(house: House) -> None:
    await house.store(FACT, project="a")
    await house.store(NEAR, project="b")

    assert await house.merged(project="a") == {}
    assert await house.merged() == {}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"tags": ("billing",)}, {}),
        ({"importance": 0}, {"importance": 4}),
        ({"memory_type": "decision"}, {}),
        ({"category": "technical"}, {}),
        ({"category": "technical"}, {"category": "project"}),
        ({"expires_at": FakeClock().now() + timedelta(days=1)}, {}),
        ({}, {"valid_to": FakeClock().now() + timedelta(days=1)}),
    ],
)
async def test_what_a_filter_finds_it_still_finds_after_a_consolidation(
    house: House, older: dict[str, Any], newer: dict[str, Any]
) -> None:
    await house.store(FACT, **older)
    await house.store(NEAR, **newer)

    done = await house.consolidate()

    assert (done.merges, done.kept_apart) == ((), 1)


async def test_a_duplicate_in_another_category_is_named_with_what_keeps_it_apart(
    house: House,
) -> None:
    older = await house.store(FACT, category="technical", tags=("billing",))
    newer = await house.store(NEAR, category="project")

    (apart,) = (await house.consolidate(dry_run=True)).apart

    assert (apart.older_id, apart.newer_id) == (older, newer)
    assert apart.because == ("category", "tags")
    assert apart.jaccard == compare_characters(FACT, NEAR)


async def test_a_note_without_a_category_gives_way_to_its_duplicate_that_has_one(
    house: House,
) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR, category="technical")

    assert await house.merged() == {older: newer}


async def test_what_is_kept_apart_is_counted_in_full_and_named_up_to_a_bound(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEPT_APART_SHOWN_MAX", 1)
    for tag in ("a", "b", "c"):
        await house.store(FACT, tags=(tag,))

    done = await house.consolidate()

    assert (done.kept_apart, len(done.apart)) == (2, 1)


async def test_an_undone_merge_is_not_proposed_again(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)
    await house.consolidate()
    house.clock.advance(timedelta(minutes=1))
    await house.service.consolidation.undo(house.principal, [older])

    done = await house.consolidate()

    (apart,) = done.apart
    assert (done.merges, apart.because) == ((), ("undone",))
    assert {apart.older_id, apart.newer_id} == {older, newer}
    assert (await house.get(older)).is_searched
    assert (await house.get(newer)).is_searched


async def test_both_of_an_undone_merge_still_give_way_to_a_third(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)
    await house.consolidate()
    await house.service.consolidation.undo(house.principal, [older])
    third = await house.store(FACT.upper())

    assert await house.merged() == {older: third, newer: third}


async def test_a_text_that_changed_after_an_undone_merge_is_compared_anew(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)
    await house.consolidate()
    await house.service.consolidation.undo(house.principal, [older])
    house.clock.advance(timedelta(minutes=1))
    await house.service.memories.correct(house.principal, older, MemoryChange(content=NEAR))

    assert await house.merged() == {newer: older}


async def test_without_an_embedder_letters_decide_and_the_answer_says_so(plain: House) -> None:
    older, newer = await plain.store(FACT), await plain.store(NEAR)

    done = await plain.consolidate()

    assert done.degraded == ("words_only",)
    (merge,) = done.merges
    assert (merge.merged_id, merge.kept_id, merge.cosine) == (older, newer, None)


async def test_an_embedder_that_fails_is_done_without_and_the_answer_says_so(
    tmp_path: Path, clock: FakeClock
) -> None:
    embedder = NamedEmbedder("failing")
    embedder.patience = 0
    async for house in _house(tmp_path, clock, Tiers.of(deep=embedder)):
        await house.store(FACT)
        await house.store(NEAR)

        done = await house.consolidate()

        assert (len(done.merges), done.degraded) == (1, ("words_only",))


async def test_texts_of_the_same_letters_and_another_meaning_stay(
    tmp_path: Path, clock: FakeClock
) -> None:
    async for house in _house(tmp_path, clock, Tiers.of(deep=Opposite())):
        await house.store(FACT)
        await house.store(NEAR)

        assert await house.merged() == {}


async def test_a_relation_that_says_the_opposite_keeps_them_apart(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)
    await house.service.memories.connect(
        house.principal,
        RelationDraft(source_id=older, target_id=newer, relation_type="supersedes"),
    )

    done = await house.consolidate()

    assert (done.merges, done.kept_apart) == ((), 1)
    assert (await house.get(older)).is_searched


async def test_merges_are_bounded_and_the_answer_says_so(house: House) -> None:
    for _ in range(4):
        await house.store(FACT)

    first = await house.consolidate(limit=2)
    second = await house.consolidate(limit=2)

    assert (len(first.merges), first.truncated) == (2, True)
    assert (len(second.merges), second.truncated) == (1, False)


async def test_memories_beyond_the_bound_are_left_and_the_answer_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONSOLIDATE_MEMORIES_MAX", 2)
    for text in (UNLIKE, FACT, NEAR):
        await house.store(text)

    done = await house.consolidate()

    assert (done.examined, done.truncated) == (2, True)


async def test_a_consolidation_that_died_between_its_steps_is_finished_by_the_next(
    house: House,
) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)
    await house.service.memories.connect(
        house.principal,
        RelationDraft(source_id=newer, target_id=older, relation_type="supersedes"),
    )

    assert await house.merged() == {older: newer}


async def test_only_merged_memories_are_brought_back_all_or_none(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)
    await house.consolidate()
    undo = house.service.consolidation.undo

    with pytest.raises(ConflictError):
        await undo(house.principal, [older, newer])
    with pytest.raises(NotFoundError):
        await undo(house.principal, [older, MemoryId("mem_" + "x" * 21)])
    with pytest.raises(NotFoundError):
        await undo(house.principal, [older], project="another")
    assert not (await house.get(older)).is_searched


async def test_twice_the_same_memories_give_twice_the_same_merges(
    tmp_path: Path, clock: FakeClock
) -> None:
    texts = [f"{text} {name}" for text in (FACT, UNLIKE) for name in ("a", "b", "c", "a b c")]
    places = list[list[tuple[int, int]]]()
    for name in ("one", "two"):
        async for house in _house(tmp_path / name, clock, Tiers.of(deep=HashedEmbedder())):
            ids = [await house.store(text) for text in texts]
            merged = await house.merged()
            places.append([(ids.index(old), ids.index(new)) for old, new in merged.items()])

    assert places[0] == places[1]
    assert places[0]

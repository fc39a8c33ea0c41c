"""Recall: what answers a question among memories, what relations say of it, and nothing written."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.clock import RandomIds
from engram.embedding.choice import Hashed
from engram.errors import AccessDeniedError, InvalidRequestError
from engram.model.access import Principal
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import MemoryId, RelationId
from engram.model.memory import MemoryDraft, MemoryFilters, Relation, RelationDraft, RelationType
from engram.model.recall import Recalled, RecallRequest
from engram.model.value import replace
from engram.search.recall import neighbours, put_behind
from engram.service import Service
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import open_service
from tests.fakes import SOME_DAY, FakeClock
from tests.promises import promise

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class House:
    """One caller of one service."""

    def __init__(self, service: Service, principal: Principal) -> None:
        self.service = service
        self.principal = principal

    async def keep(self, content: str, **fields: Any) -> MemoryId:
        draft = MemoryDraft(content=content, **fields)
        (stored,) = (await self.service.memories.store(self.principal, draft)).memories
        return stored.id

    async def relate(
        self, source: MemoryId, kind: RelationType, target: MemoryId, strength: float = 1.0
    ) -> None:
        draft = RelationDraft(
            source_id=source, target_id=target, relation_type=kind, strength=strength
        )
        await self.service.memories.connect(self.principal, draft)

    async def recall(self, query: str = "harbour crane", **given: Any) -> Recalled:
        request = RecallRequest(query=query, **given)
        return await self.service.search.recall(self.principal, request)

    async def ids(self, **given: Any) -> list[MemoryId]:
        return [each.memory.id for each in (await self.recall(**given)).results]


@pytest.fixture
def house(service: Service, principal: Principal) -> House:
    return House(service, principal)


@pytest.fixture
async def meaning(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    """Yield a house whose memories have vectors."""
    settings = Settings(home=tmp_path / "meant", embedder=Hashed())
    async with open_service(settings, clock=clock) as opened:
        yield House(opened, await opened.access.local_principal())


async def test_memories_are_recalled_best_first_and_explained(meaning: House) -> None:
    best = await meaning.keep("The harbour crane is green")
    other = await meaning.keep("A crane stands somewhere in the north, and there is much else")
    request = AppendRequest(messages=(MessageDraft(role="user", content="harbour crane"),))
    await meaning.service.conversations.append_messages(meaning.principal, request)

    recalled = await meaning.recall("the green harbour crane")

    assert [each.memory.id for each in recalled.results] == [best, other]
    first = recalled.results[0]
    assert first.score > recalled.results[1].score
    assert first.breakdown.vector_tier == "deep"
    assert first.matched.text == "The harbour crane is green"
    assert (first.chunk_count, first.superseded_by, first.connected) == (1, (), ())
    assert recalled.conflicts == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "abcd"),
        ({"filters": MemoryFilters(projects=("default",))}, "abc"),
        ({"filters": MemoryFilters(projects=("default", "port"))}, "abcd"),
        ({"filters": MemoryFilters(projects=("nowhere",))}, ""),
        ({"filters": MemoryFilters(memory_types=("decision", "error"))}, "ad"),
        ({"filters": MemoryFilters(importance_max=1)}, "a"),
        ({"tags": ("red",)}, "ab"),
        ({"tags": ("red", "blue")}, "b"),
        ({"since": SOME_DAY - 2 * HOUR}, "acd"),
        ({"before": SOME_DAY - 2 * HOUR}, "b"),
        ({"since": SOME_DAY - 9 * HOUR, "before": SOME_DAY}, "b"),
    ],
)
async def test_filters_choose_what_is_recalled(
    house: House, given: dict[str, Any], expected: str
) -> None:
    kept = {
        await house.keep(
            "harbour crane a", memory_type="decision", importance=0, tags=("red",)
        ): "a",
        await house.keep(
            "harbour crane b", tags=("red", "blue"), valid_from=SOME_DAY - 9 * HOUR
        ): "b",
        await house.keep("harbour crane c", tags=("blue",)): "c",
        await house.keep("harbour crane d", project="port", memory_type="error"): "d",
    }

    assert sorted(expected) == sorted(kept[each] for each in await house.ids(**given))


async def test_what_holds_since_the_time_asked_about_is_recalled_first(house: House) -> None:
    for days in (20, 10, 1):
        await house.keep(f"The crane was painted {days}", valid_from=SOME_DAY - days * DAY)
    request = RecallRequest(query="crane painted two days ago", asked_at=SOME_DAY - 8 * DAY)

    recalled = await house.service.search.recall(house.principal, request)

    first, *others = recalled.results
    assert first.memory.content == "The crane was painted 10"
    assert first.breakdown.time_bonus > 0
    assert [other.breakdown.time_bonus for other in others] == [0, 0]


async def test_an_episode_is_recalled_alone(house: House, tmp_path: Path, clock: FakeClock) -> None:
    store = SqliteStore(tmp_path / "store", clock=clock, ids=RandomIds())
    await store.open()
    organization = await store.organization(house.principal.organization_id)
    episode = await organization.memories.start_episode("default", "a day", actor="test")
    await store.close()
    inside = await house.keep("harbour crane", episode_id=episode)
    await house.keep("another harbour crane")

    assert await house.ids(filters=MemoryFilters(episode_id=episode)) == [inside]


async def test_five_hundred_memories_are_recalled_if_asked_for(meaning: House) -> None:
    for start in range(0, 600, 100):
        drafts = [MemoryDraft(content=f"harbour crane {start + n}") for n in range(100)]
        await meaning.service.memories.store_batch(meaning.principal, drafts)

    recalled = await meaning.recall(top_k=500)

    assert len({each.memory.id for each in recalled.results}) == 500
    assert recalled.total_candidates >= 500


async def test_what_is_superseded_is_marked_and_comes_behind(house: House) -> None:
    old = await house.keep("The harbour crane is green")
    middle = await house.keep("Of late the harbour crane is said to be of a blue colour")
    new = await house.keep("As of today, after long talks, the harbour has a crane that is red")
    assert await house.ids() == [old, middle, new]

    await house.relate(new, "supersedes", old)

    recalled = await house.recall()
    assert [each.memory.id for each in recalled.results] == [middle, new, old]
    assert [each.superseded_by for each in recalled.results] == [(), (), (new,)]


async def test_what_supersedes_is_brought_among_the_first(house: House) -> None:
    old = await house.keep("The harbour crane is green")
    new = await house.keep("As of today, after long talks, the harbour has a crane that is red")
    await house.keep("Of late the harbour crane is blue")

    await house.relate(new, "supersedes", old)

    (first, second) = (await house.recall(top_k=2)).results
    assert first.superseded_by == second.superseded_by == ()
    assert new in {first.memory.id, second.memory.id}


async def test_a_forgotten_memory_supersedes_nothing(house: House) -> None:
    old = await house.keep("The harbour crane is green")
    new = await house.keep("The harbour crane is red")
    await house.relate(new, "supersedes", old)

    await house.service.memories.forget(house.principal, new)

    (result,) = (await house.recall()).results
    assert (result.memory.id, result.superseded_by) == (old, ())


async def test_contradictions_among_the_results_are_listed(house: House) -> None:
    green = await house.keep("The harbour crane is green")
    red = await house.keep("The harbour crane is red")
    sea = await house.keep("The sea is wide")
    await house.relate(red, "contradicts", green)
    await house.relate(sea, "contradicts", green)

    recalled = await house.recall()

    (conflict,) = recalled.conflicts
    assert (conflict.source_id, conflict.target_id) == (red, green)


@promise("relations")
async def test_related_memories_come_up_to_two_hops(house: House) -> None:
    crane = await house.keep("The harbour crane is green")
    paint = await house.keep("Paint comes from Malmö")
    shop = await house.keep("The shop opens at nine")
    far = await house.keep("Nine is a square")
    await house.relate(crane, "depends_on", paint, 0.5)
    await house.relate(shop, "supports", paint)
    await house.relate(far, "relates_to", shop)

    connected = [
        [(each.memory.id, each.relation_type, each.is_source, each.hops) for each in one.connected]
        for hops in (0, 1, 2)
        for one in (await house.recall(hops=hops)).results
    ]

    near = (paint, "depends_on", False, 1)
    assert connected == [[], [near], [near, (shop, "supports", True, 2)]]


async def test_related_memories_of_other_projects_or_times_do_not_come(
    house: House, clock: FakeClock
) -> None:
    crane = await house.keep("The harbour crane is green")
    elsewhere = await house.keep("Paint comes from Malmö", project="port")
    expired = await house.keep("The shop opens at nine", expires_at=clock.now() + HOUR)
    for other in (elsewhere, expired):
        await house.relate(crane, "relates_to", other)
    clock.advance(HOUR)
    here = MemoryFilters(projects=("default",))

    (scoped,) = (await house.recall(hops=1, filters=here)).results
    (result,) = (await house.recall(hops=1)).results

    assert scoped.connected == ()
    assert [each.memory.id for each in result.connected] == [elsewhere]


async def test_the_part_of_a_long_memory_that_matched_is_told(house: House) -> None:
    paragraphs = [
        f"Paragraph {number} speaks of the sea and its waves.\n\n" for number in range(400)
    ]
    paragraphs[300] = "The lighthouse keeper has a green crane.\n\n"
    await house.keep("".join(paragraphs))

    (result,) = (await house.recall("lighthouse keeper")).results

    assert result.chunk_count > 1
    assert "lighthouse keeper" in (result.matched.text or "")
    content = result.memory.content
    assert content[result.matched.start : result.matched.end] == result.matched.text


@promise("reproducible", "feedback")
async def test_recalling_writes_nothing_and_repeats_itself(
    meaning: House, tmp_path: Path, clock: FakeClock
) -> None:
    old = await meaning.keep("The harbour crane is green")
    new = await meaning.keep("The harbour crane is red")
    await meaning.relate(new, "supersedes", old)
    await meaning.recall(hops=2)  # gives what was just stored its vectors
    (path,) = (tmp_path / "meant").rglob("orgs/*.db")
    with closing(sqlite3.connect(path)) as watching:
        before = version_of(watching), contents_of(tmp_path / "meant")

        first = await meaning.recall(hops=2)
        second = await meaning.recall(hops=2)

        assert (version_of(watching), contents_of(tmp_path / "meant")) == before
    assert first == second
    clock.advance(HOUR)
    assert (await meaning.recall(hops=2)).event_id != first.event_id


def version_of(connection: sqlite3.Connection) -> int:
    """Return what changes for a connection when others commit."""
    return connection.execute("PRAGMA data_version").fetchone()[0]


def contents_of(directory: Path) -> dict[str, str]:
    """Return what is in the files of a store, its shared memory apart."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*.db*")
        if not path.name.endswith("-shm")
    }


async def test_a_key_that_may_not_search_recalls_nothing(house: House) -> None:
    reader = House(house.service, replace(house.principal, scopes=frozenset({"read"})))

    with pytest.raises(AccessDeniedError):
        await reader.recall()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"query": " "}, "query"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 501}, "top_k"),
        ({"hops": 3}, "hops"),
        ({"hops": -1}, "hops"),
        ({"min_score": -0.1}, "min_score"),
        ({"profile": "best"}, "profile"),
        ({"tags": ("red", "red")}, "tags"),
        ({"since": SOME_DAY, "before": SOME_DAY}, "since"),
    ],
)
def test_bad_requests_are_refused_by_field(given: dict[str, Any], field: str) -> None:
    fields: dict[str, Any] = {"query": "harbour", **given}

    with pytest.raises(InvalidRequestError) as refused:
        RecallRequest(**fields)

    assert refused.value.field == field


some_ids = st.integers(0, 9).map(lambda number: MemoryId(f"mem_{number}"))


@given(
    ranked=st.lists(some_ids, unique=True),
    pairs=st.lists(st.tuples(some_ids, some_ids).filter(lambda pair: pair[0] < pair[1])),
)
def test_nothing_is_lost_or_comes_before_what_supersedes_it(
    ranked: list[MemoryId], pairs: list[tuple[MemoryId, MemoryId]]
) -> None:
    superseded: dict[MemoryId, list[MemoryId]] = {}
    for newer, older in pairs:
        superseded.setdefault(older, []).append(newer)

    ordered = put_behind(ranked, superseded)

    assert sorted(ordered) == sorted(ranked)
    places = {each: place for place, each in enumerate(ordered)}
    assert all(
        places[newer] < places[older]
        for newer, older in pairs
        if newer in places and older in places
    )
    if not set(superseded) & set(ranked):
        assert ordered == ranked


@promise("relations")
def test_a_circle_of_what_supersedes_loses_nothing() -> None:
    one, two = MemoryId("mem_1"), MemoryId("mem_2")

    assert sorted(put_behind([one, two], {one: [two], two: [one]})) == [one, two]


@promise("relations")
@given(
    pairs=st.lists(st.tuples(some_ids, some_ids).filter(lambda pair: pair[0] != pair[1])),
    hops=st.integers(0, 2),
)
def test_neighbours_are_those_within_the_steps_each_once(
    pairs: list[tuple[MemoryId, MemoryId]], hops: int
) -> None:
    start = MemoryId("mem_0")
    relations = [
        Relation(
            id=RelationId(f"rel_{place}"),
            source_id=source,
            target_id=target,
            relation_type="relates_to",
            strength=1.0,
            created_at=SOME_DAY,
        )
        for place, (source, target) in enumerate(pairs)
    ]

    found = neighbours(start, relations, hops=hops)

    distances = {start: 0}
    for hop in range(1, hops + 1):
        reached = {
            end
            for pair in pairs
            for near, end in (pair, pair[::-1])
            if distances.get(near) == hop - 1
        }
        distances |= {end: hop for end in reached if end not in distances}
    assert {each.id: each.hops for each in found} == {
        each: hop for each, hop in distances.items() if hop
    }
    assert len({each.id for each in found}) == len(found)
    assert [each.hops for each in found] == sorted(each.hops for each in found)

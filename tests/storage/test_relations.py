"""The contract of relations: what relates two memories, what may not, and where walks lead."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.access import OrganizationDraft
from engram.model.ids import MemoryId
from engram.model.memory import RELATION_TYPES, Relation
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, on_sqlite, opened_file
from tests.storage.memory_drafts import NOWHERE, relation, remember

pytestmark = promise("relations")

FEW = 3


async def test_a_relation_is_met_from_both_of_its_memories(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    cause, effect = await remember(organization, "the disk was full", "the deploy failed")

    made = await organization.memories.connect(
        relation(effect, cause, "caused_by", strength=0.7), actor=ACTOR
    )

    assert (made.source_id, made.target_id, made.relation_type) == (effect, cause, "caused_by")
    assert (made.strength, made.created_at) == (0.7, clock.now())
    assert made.id.startswith("rel_")
    for memory_id in (cause, effect):
        assert await organization.memories.relations([memory_id]) == (made,)


async def test_the_same_pair_and_type_again_takes_the_new_strength(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    first, second = await remember(organization, "first text", "second text")
    made = await organization.memories.connect(relation(first, second), actor=ACTOR)
    clock.advance(timedelta(days=1))

    weaker = await organization.memories.connect(relation(first, second, strength=0), actor=ACTOR)

    assert (weaker.id, weaker.created_at, weaker.strength) == (made.id, made.created_at, 0)
    assert await organization.memories.relations([first]) == (weaker,)


async def test_two_memories_may_be_related_in_every_way_at_once(
    organization: OrganizationStore,
) -> None:
    first, second = await remember(organization, "first text", "second text")

    for kind in RELATION_TYPES:
        await organization.memories.connect(relation(first, second, kind), actor=ACTOR)
    await organization.memories.connect(relation(second, first), actor=ACTOR)

    met = await organization.memories.relations([first])
    assert len({each.id for each in met}) == len(met) == len(RELATION_TYPES) + 1


@pytest.mark.parametrize("unknown", ["source", "target"])
async def test_what_is_not_here_cannot_be_related(
    store: Store, organization: OrganizationStore, unknown: str
) -> None:
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)
    other = await store.organization(created.id)
    (mine,) = await remember(organization, "a memory of mine")
    (theirs,) = await remember(other, "a memory of theirs")

    for foreign in (NOWHERE, theirs):
        ends = (foreign, mine) if unknown == "source" else (mine, foreign)
        with pytest.raises(NotFoundError) as refused:
            await organization.memories.connect(relation(*ends), actor=ACTOR)

        assert (refused.value.kind, refused.value.identifier) == ("memory", foreign)
    assert await organization.memories.relations([mine, theirs, NOWHERE]) == ()


@pytest.mark.parametrize("length", [2, 3, 30])
async def test_a_circle_of_supersedes_is_refused_and_named(
    organization: OrganizationStore, length: int
) -> None:
    chain = await remember(organization, *(f"text number {each}" for each in range(length)))
    for newer, older in itertools.pairwise(chain):
        await organization.memories.connect(relation(newer, older, "supersedes"), actor=ACTOR)
    before = await organization.memories.relations(chain)

    with pytest.raises(InvalidRequestError) as refused:
        await organization.memories.connect(
            relation(chain[-1], chain[0], "supersedes"), actor=ACTOR
        )

    assert refused.value.field == "target_id"
    assert [each for each in chain if each in refused.value.message] == (
        chain if length <= 10 else [*chain[:9], chain[-1]]
    )
    assert await organization.memories.relations(chain) == before


async def test_a_memory_may_be_superseded_on_two_ways_and_a_relation_repeated(
    organization: OrganizationStore,
) -> None:
    newest, left, right, oldest = await remember(
        organization, "the newest", "on the left", "on the right", "the oldest"
    )
    ways = [(newest, left), (newest, right), (left, oldest), (right, oldest), (newest, oldest)]

    for newer, older in ways * 2:
        await organization.memories.connect(relation(newer, older, "supersedes"), actor=ACTOR)

    assert len(await organization.memories.relations([newest], hops=2)) == len(ways)


async def test_a_circle_is_looked_for_once_on_each_of_many_ways(
    organization: OrganizationStore,
) -> None:
    levels = [await remember(organization, f"left {each}", f"right {each}") for each in range(40)]
    for newer, older in itertools.pairwise(levels):
        for ends in itertools.product(newer, older):
            await organization.memories.connect(relation(*ends, "supersedes"), actor=ACTOR)

    with pytest.raises(InvalidRequestError):
        await organization.memories.connect(
            relation(levels[-1][0], levels[0][0], "supersedes"), actor=ACTOR
        )


async def test_other_relations_may_close_a_circle(organization: OrganizationStore) -> None:
    first, second = await remember(organization, "first text", "second text")

    await organization.memories.connect(relation(first, second, "follows"), actor=ACTOR)
    await organization.memories.connect(relation(second, first, "follows"), actor=ACTOR)
    await organization.memories.connect(relation(second, first, "supersedes"), actor=ACTOR)

    assert len(await organization.memories.relations([first])) == 3


async def test_two_processes_that_close_a_circle_together_are_refused_one(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    first, second = await remember(organization, "first text", "second text")

    results = await asyncio.gather(
        organization.memories.connect(relation(first, second, "supersedes"), actor=ACTOR),
        elsewhere.memories.connect(relation(second, first, "supersedes"), actor=ACTOR),
        return_exceptions=True,
    )

    assert sorted(type(each).__name__ for each in results) == ["InvalidRequestError", "Relation"]


async def test_a_relation_is_taken_away_once(organization: OrganizationStore) -> None:
    first, second = await remember(organization, "first text", "second text")
    await organization.memories.connect(relation(first, second, "supersedes"), actor=ACTOR)

    for ends in ((second, first), (first, NOWHERE), (NOWHERE, second)):
        assert not await organization.memories.disconnect(*ends, "supersedes", actor=ACTOR)
    assert not await organization.memories.disconnect(first, second, "supports", actor=ACTOR)
    assert await organization.memories.disconnect(first, second, "supersedes", actor=ACTOR)
    assert not await organization.memories.disconnect(first, second, "supersedes", actor=ACTOR)

    assert await organization.memories.relations([first, second]) == ()
    await organization.memories.connect(relation(second, first, "supersedes"), actor=ACTOR)


async def test_the_audit_says_who_related_what(organization: OrganizationStore) -> None:
    first, second = await remember(organization, "first text", "second text")

    await organization.memories.connect(relation(first, second), actor=ACTOR)
    await organization.memories.disconnect(first, second, "relates_to", actor=ACTOR)
    await organization.memories.disconnect(first, second, "relates_to", actor=ACTOR)

    entries = await organization.list_audit(limit=2, before=None)
    assert [each.action for each in entries] == ["memory_disconnect", "memory_connect"]
    for entry in entries:
        assert (entry.actor, entry.subject) == (ACTOR, first)
        assert entry.details == {"target_id": second, "relation_type": "relates_to"}


async def test_a_purged_memory_takes_its_relations_along(
    organization: OrganizationStore,
) -> None:
    first, second, third = await remember(organization, "first text", "second text", "third text")
    await organization.memories.connect(relation(first, second), actor=ACTOR)
    await organization.memories.connect(relation(third, first), actor=ACTOR)
    stays = await organization.memories.connect(relation(second, third), actor=ACTOR)

    await organization.memories.purge(first, actor=ACTOR)

    assert await organization.memories.relations([second, third], hops=2) == (stays,)


async def test_a_forgotten_memory_keeps_its_relations(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    newer, older = await remember(organization, "newer text", "older text")
    made = await organization.memories.connect(relation(newer, older, "supersedes"), actor=ACTOR)

    await organization.memories.forget(older, reason=None, actor=ACTOR, now=clock.now())

    assert await organization.memories.relations([older]) == (made,)


async def test_a_hub_brings_its_strongest_relations_and_no_more(
    organization: OrganizationStore,
) -> None:
    count = limits.RELATED_MAX + 5
    hub, *spokes = await remember(organization, *(f"text number {each}" for each in range(count)))
    for number, spoke in enumerate(spokes):
        strength = number / count
        await organization.memories.connect(relation(hub, spoke, strength=strength), actor=ACTOR)

    met = await organization.memories.relations([hub], hops=2)

    assert [each.target_id for each in met] == spokes[: -limits.RELATED_MAX - 1 : -1]


async def test_no_relation_however_strong_hides_that_a_memory_is_superseded_or_contradicted(
    organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RELATED_MAX", 2)
    texts = [f"text number {each}" for each in range(6)]
    hub, newer, rival, older, *spokes = await remember(organization, *texts)
    telling = [
        relation(newer, hub, relation_type="supersedes", strength=0.1),
        relation(hub, rival, relation_type="contradicts", strength=0.1),
    ]
    others = [
        relation(hub, older, relation_type="supersedes"),
        *(relation(hub, spoke) for spoke in spokes),
    ]
    for draft in (*others, *telling):
        await organization.memories.connect(draft, actor=ACTOR)

    met = await organization.memories.relations([hub])

    assert {(each.source_id, each.target_id) for each in met} == {(newer, hub), (hub, rival)}


edges = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0.0, 0.5, 1.0])).filter(
        lambda edge: edge[0] != edge[1]
    ),
    max_size=20,
    unique_by=lambda edge: edge[:2],
)


@given(edges=edges, starts=st.sets(st.integers(0, 7), max_size=3), hops=st.integers(1, 4))
async def test_a_walk_meets_what_a_plain_search_in_breadth_meets(
    organization: OrganizationStore,
    monkeypatch: pytest.MonkeyPatch,
    edges: list[tuple[int, int, float]],
    starts: set[int],
    hops: int,
) -> None:
    monkeypatch.setattr(limits, "RELATED_MAX", FEW)
    memories = await remember(organization, *(f"text number {each}" for each in range(8)))
    places = {memory_id: place for place, memory_id in enumerate(memories)}
    made: list[Relation] = []
    for source, target, strength in edges:
        draft = relation(memories[source], memories[target], strength=strength)
        made.append(await organization.memories.connect(draft, actor=ACTOR))

    met = await organization.memories.relations([memories[each] for each in starts], hops=hops)

    hop_of = nearest_hops(made, [memories[each] for each in starts], hops, places)
    expected = sorted(hop_of, key=lambda each: (hop_of[each], -each.strength, each.id))
    assert list(met) == expected


def nearest_hops(
    relations: list[Relation],
    starts: Iterable[MemoryId],
    hops: int,
    places: dict[MemoryId, int],
) -> dict[Relation, int]:
    """Return at which step each relation is met first, walking from each start for itself."""
    nearest: dict[Relation, int] = {}
    for start in starts:
        levels = {start: 0}
        for hop in range(1, hops + 1):
            for each in next_relations(relations, levels, hop, places):
                nearest[each] = min(hop, nearest.get(each, hop))
                for end in (each.source_id, each.target_id):
                    levels.setdefault(end, hop)
    return nearest


def next_relations(
    relations: list[Relation], levels: dict[MemoryId, int], hop: int, places: dict[MemoryId, int]
) -> list[Relation]:
    """Return the strongest relations of the memories reached last that were not at hand before."""
    new = [
        each
        for each in relations
        if min(levels.get(each.source_id, hop), levels.get(each.target_id, hop)) == hop - 1
    ]
    new.sort(key=lambda each: (-each.strength, places[each.source_id], places[each.target_id]))
    return new[:FEW]


@on_sqlite
async def test_a_relation_of_a_memory_with_itself_has_no_place_in_a_file(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await remember(organization, "a memory alone")

    with pytest.raises(sqlite3.IntegrityError), opened_file(tmp_path, organization) as connection:
        connection.execute(
            "INSERT INTO relation SELECT number, number, 'follows', organization_id, 1, 0, NULL"
            " FROM memory"
        )

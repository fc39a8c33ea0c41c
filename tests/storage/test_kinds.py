"""Searches over conversations and memories: kinds and filters hold before ranking, time does too."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.clock import to_microseconds
from engram.errors import NotFoundError
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import ConversationId, ConversationKey
from engram.model.memory import (
    CATEGORIES,
    MEMORY_TYPES,
    Feedback,
    MemoryChange,
    MemoryDraft,
    MemoryFilters,
)
from engram.model.search import KINDS, Kind, SearchFilters
from engram.model.vectors import QueryVector
from engram.storage.organization import OrganizationStore
from engram.text.analyse import query_terms
from tests.fakes import SOME_DAY, FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, UNBOUNDED, begin
from tests.storage.embedded import QUICK, append_meant, indexing_of, vector_of
from tests.storage.finding import Kept, find_candidates
from tests.storage.memory_drafts import remember, store

EVERYTHING = SearchFilters()
WORD = "harbour"
HOUR = timedelta(hours=1)
TAGS = ("red", "blue", "green")


@dataclass(frozen=True, slots=True)
class Item:
    """A conversation or a memory, and what filters ask of it."""

    id: str
    fields: dict[str, Any]

    def meets(self, kinds: tuple[Kind, ...], filters: SearchFilters) -> bool:
        kind = "note" if self.id.startswith("mem_") else "conversation"
        fields = self.fields
        moment = fields.get("moment") or SOME_DAY
        return (
            kind in kinds
            and set(filters.tags) <= set(fields["tags"])
            and filters.project in {None, fields["project"]}
            and (filters.since is None or moment >= filters.since)
            and (filters.before is None or moment < filters.before)
            and filters.agent_id in {None, fields.get("agent_id")}
            and filters.role in {None, fields.get("role")}
            and (filters.memory.is_empty or self._meets_memory(filters.memory))
        )

    def _meets_memory(self, filters: MemoryFilters) -> bool:
        fields = self.fields
        return (
            "category" in fields
            and (filters.projects is None or fields["project"] in filters.projects)
            and (not filters.memory_types or fields["memory_type"] in filters.memory_types)
            and (not filters.categories or fields["category"] in filters.categories)
            and (not filters.sources or fields["source"] in filters.sources)
            and (not filters.tags or bool(set(filters.tags) & set(fields["tags"])))
            and (filters.importance_max is None or fields["importance"] <= filters.importance_max)
        )


async def fill(organization: OrganizationStore) -> list[Item]:
    """Store conversations and memories of every sort, and return them."""
    items: list[Item] = []
    sorts = product(("default", "other"), ((), ("red",), ("red", "blue")), (None, "bot"))
    for place, (project, tags, agent_id) in enumerate(sorts):
        moment = None if place % 2 else SOME_DAY - place * HOUR
        draft = ConversationDraft(project=project, tags=tags, agent_id=agent_id)
        conversation_id = await organization.create_conversation(draft, actor=ACTOR)
        message = MessageDraft(role="user", content=f"{WORD} {place}", occurred_at=moment)
        request = AppendRequest(conversation_id=conversation_id, messages=(message,))
        await organization.append_messages(request, actor=ACTOR, quota=UNBOUNDED)
        fields = {"project": project, "tags": tags, "agent_id": agent_id, "role": "user"}
        items.append(Item(conversation_id, {**fields, "moment": moment}))
    memories = [memory_fields(place) for place in range(30)]
    stored = await store(
        organization,
        *(MemoryDraft(content=f"{WORD} {place}", **each) for place, each in enumerate(memories)),
    )
    return items + [
        Item(each.id, {**fields, "moment": fields["valid_from"]})
        for each, fields in zip(stored, memories, strict=True)
    ]


def memory_fields(place: int) -> dict[str, Any]:
    return {
        "project": ("default", "other", "third")[place % 3],
        "tags": TAGS[: place % 4],
        "memory_type": MEMORY_TYPES[place % 6],
        "category": CATEGORIES[place % 5],
        "source": ("manual", "hook")[place % 2],
        "importance": place % 5,
        "valid_from": None if place % 2 else SOME_DAY - place * HOUR,
    }


some_tags = st.lists(st.sampled_from(TAGS), max_size=2, unique=True).map(tuple)
moments = st.none() | st.integers(0, 30).map(lambda hours: SOME_DAY - hours * HOUR)
memory_filters = st.just(MemoryFilters()) | st.builds(
    MemoryFilters,
    projects=st.none()
    | st.lists(st.sampled_from(("default", "other", "third")), min_size=1, unique=True).map(tuple),
    memory_types=st.lists(st.sampled_from(MEMORY_TYPES), max_size=3, unique=True).map(tuple),
    categories=st.lists(st.sampled_from(CATEGORIES), max_size=3, unique=True).map(tuple),
    sources=st.lists(st.sampled_from(("manual", "hook", "nobody")), max_size=2, unique=True).map(
        tuple
    ),
    tags=some_tags,
    importance_max=st.none() | st.integers(0, 4),
)


def ordered(since: datetime | None, before: datetime | None, **given: Any) -> SearchFilters:
    is_ordered = since is None or before is None or since < before
    return SearchFilters(since=since, before=before if is_ordered else None, **given)


search_filters = st.builds(
    ordered,
    since=moments,
    before=moments,
    tags=some_tags,
    project=st.none() | st.sampled_from(("default", "other", "nowhere")),
    agent_id=st.sampled_from((None, None, "bot")),
    role=st.sampled_from((None, None, None, "user")),
    memory=memory_filters,
)
some_kinds = st.lists(st.sampled_from(KINDS), min_size=1, unique=True).map(tuple)


@dataclass(frozen=True, slots=True)
class Filled:
    """A store and what is in it."""

    store: OrganizationStore
    items: list[Item]


@pytest.fixture
async def filled(organization: OrganizationStore) -> Filled:
    """Return a store of every sort of thing."""
    return Filled(organization, await fill(organization))


async def owners(
    organization: OrganizationStore,
    *,
    kinds: tuple[Kind, ...] = KINDS,
    filters: SearchFilters = EVERYTHING,
    now: datetime = SOME_DAY,
    query: str = WORD,
    vectors: tuple[QueryVector, ...] = (),
) -> set[str]:
    """Return the ids of the conversations and memories that a search finds and reads."""
    _, loaded = await organization.search(
        query_terms(query),
        vectors=vectors,
        filters=filters,
        kinds=kinds,
        now=to_microseconds(now),
        limit=200,
        choose=lambda found: Kept(
            found, conversations=[*map(ConversationKey, found.conversations.tolist())]
        ),
    )
    found = (*loaded.conversations.values(), *loaded.memories.values())
    return {each.id for each in found}


@given(kinds=some_kinds, filters=search_filters)
async def test_kinds_and_filters_hold_before_ranking(
    filled: Filled, kinds: tuple[Kind, ...], filters: SearchFilters
) -> None:
    found = await owners(filled.store, kinds=kinds, filters=filters)

    assert found == {item.id for item in filled.items if item.meets(kinds, filters)}


async def test_a_memory_is_no_conversation_to_filter_by(organization: OrganizationStore) -> None:
    (memory_id,) = await remember(organization, WORD)

    with pytest.raises(NotFoundError):
        await owners(organization, filters=SearchFilters(conversation_id=ConversationId(memory_id)))


@pytest.mark.parametrize("kinds", [KINDS, ("note",), ("note", "document")])
async def test_memories_out_of_their_time_are_not_found(
    organization: OrganizationStore,
    kinds: tuple[Kind, ...],
) -> None:
    at = SOME_DAY + 10 * HOUR
    (always,) = await remember(organization, f"{WORD} always")
    (expiring,) = await remember(organization, f"{WORD} expiring", expires_at=at)
    (ending,) = await remember(organization, f"{WORD} ending", valid_to=at)
    (beginning,) = await remember(organization, f"{WORD} beginning", valid_from=at)
    spoken = await begin(organization, f"{WORD} spoken") if "conversation" in kinds else None
    lasting = {always} if spoken is None else {always, spoken}
    moment = timedelta(microseconds=1)

    before = await owners(organization, kinds=kinds, now=at - moment)
    then = await owners(organization, kinds=kinds, now=at)
    project = SearchFilters(project="default")

    assert before == lasting | {expiring, ending}
    assert then == lasting | {beginning}
    assert then == await owners(organization, kinds=kinds, now=at, filters=project)
    since = SearchFilters(since=SOME_DAY - HOUR)
    assert then == await owners(organization, kinds=kinds, now=at, filters=since)
    general = SearchFilters(memory=MemoryFilters(categories=("general",)))
    assert {always, beginning} == await owners(organization, kinds=kinds, now=at, filters=general)


async def test_memories_are_found_by_meaning_under_the_same_filters(
    organization: OrganizationStore,
) -> None:
    spoken = await append_meant(organization, "red apple")
    texts = ["red pear", "red plum"]
    drafts = [
        MemoryDraft(content=text, category=category)
        for text, category in zip(texts, ("technical", "project"), strict=True)
    ]
    pear, plum = await organization.memories.store(
        drafts,
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=indexing_of(texts, tier="instant", identity=QUICK),
    )
    near = (QueryVector(tier="instant", identity=QUICK, vector=vector_of("red", QUICK)),)
    technical = SearchFilters(memory=MemoryFilters(categories=("technical",)))

    assert {spoken, pear.id, plum.id} == await owners(organization, query="", vectors=near)
    notes: tuple[Kind, ...] = ("note",)
    assert {pear.id, plum.id} == await owners(organization, query="", vectors=near, kinds=notes)
    assert {pear.id} == await owners(organization, query="", vectors=near, filters=technical)


async def test_a_filtered_search_is_not_starved_by_a_thousand_other_notes(
    organization: OrganizationStore,
) -> None:
    for start in range(0, 1_000, 100):
        contents = [f"{WORD} {WORD} {number}" for number in range(start, start + 100)]
        await remember(organization, *contents, category="feedback")
    wanted = await remember(organization, f"A {WORD} among many other things", category="technical")
    filters = SearchFilters(memory=MemoryFilters(categories=("technical",)))

    found = await find_candidates(organization, [WORD], filters=filters, limit=5)

    assert len(found.keys) == 1
    assert set(wanted) == await owners(organization, filters=filters)


async def test_candidates_tell_what_memories_are_worth(organization: OrganizationStore) -> None:
    await begin(organization, WORD)
    critical, trivial, praised = [
        *await remember(organization, f"{WORD} critical", importance=0),
        *await remember(organization, f"{WORD} trivial", importance=4),
        *await remember(organization, f"{WORD} praised"),
    ]
    said = Feedback(memory_ids=(praised,), helpful=True)
    await organization.memories.record_feedback(said, actor=ACTOR)
    blamed = Feedback(memory_ids=(trivial,), helpful=False)
    await organization.memories.record_feedback(blamed, actor=ACTOR)

    found = await find_candidates(organization, [WORD])

    assert np.isnan(found.importance[0])
    assert [0, 4, 2] == found.importance[1:].tolist()
    useful = found.usefulness.tolist()
    assert useful[:2] == [0, 0]
    assert -1 < useful[2] < 0 < useful[3] < 1
    assert critical


@promise("forgetting")
async def test_a_forgotten_memory_and_a_former_text_are_not_found(
    organization: OrganizationStore,
) -> None:
    forgotten, corrected = await remember(organization, f"{WORD} one", f"{WORD} two")

    await organization.memories.forget(forgotten, reason=None, actor=ACTOR, now=SOME_DAY)
    await organization.memories.correct(
        corrected, MemoryChange(content="lighthouse"), actor=ACTOR, quota=UNBOUNDED
    )

    assert set() == await owners(organization)
    assert {corrected} == await owners(organization, query="lighthouse")


async def test_a_revision_changes_with_every_write_of_any_process(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    seen = [await settled(organization, clock)]

    for write in (remember(elsewhere, WORD), remember(organization, WORD), begin(elsewhere, WORD)):
        await write
        seen.append(await settled(organization, clock))

    assert len(set(seen)) == len(seen)


async def test_a_revision_changes_when_the_time_of_a_memory_begins_or_ends(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await remember(
        organization, WORD, valid_from=clock.now() + HOUR, valid_to=clock.now() + 2 * HOUR
    )
    await remember(organization, WORD, expires_at=clock.now() + 3 * HOUR)
    seen = [await settled(organization, clock)]

    for _ in range(3):
        clock.advance(HOUR - timedelta(microseconds=1))
        assert await settled(organization, clock) == seen[-1]
        clock.advance(timedelta(microseconds=1))
        seen.append(await settled(organization, clock))

    assert len(set(seen)) == 4


async def settled(organization: OrganizationStore, clock: FakeClock) -> Hashable:
    """Return the revision that repeated questions agree on."""
    first = await organization.revision(now=clock.now())
    while first != (again := await organization.revision(now=clock.now())):
        first = again
    return again

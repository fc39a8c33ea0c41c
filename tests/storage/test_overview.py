"""The contract of overviews: what a new session should know, of every group, under every filter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from engram import limits
from engram.clock import to_microseconds
from engram.model.memory import MemoryType
from engram.model.recall import OverviewReason
from engram.search.overview import ChosenOverview
from engram.storage.organization import OrganizationStore
from engram.storage.search.overview import OPEN_TAGS, OverviewCandidate, OverviewQuery
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, begin
from tests.storage.memory_drafts import forget, relation, remember


async def overview(
    organization: OrganizationStore, clock: FakeClock, **given: Any
) -> dict[OverviewReason, list[str]]:
    """Return the texts of each group, as they were read."""
    query = OverviewQuery(now=to_microseconds(clock.now()), **given)

    def choose(candidates: Sequence[OverviewCandidate]) -> ChosenOverview:
        return ChosenOverview(candidates=tuple(candidates), projects=())

    choice, loaded = await organization.overview(query, choose=choose)
    texts: dict[OverviewReason, list[str]] = defaultdict(list)
    for each in choice.candidates:
        memory = loaded.memories.get(each.conversation)
        text = loaded.messages[each.key].content if memory is None else memory.content
        texts[each.reason].append(text)
    return texts


async def test_memories_are_grouped_by_importance_type_and_category(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await remember(organization, "plain", "newer and plain")
    await remember(organization, "never push to main", importance=0)
    await remember(organization, "mind the quota", importance=1)
    await remember(organization, "we take Postgres", memory_type="decision")
    await remember(organization, "layers point down", memory_type="architecture")
    await remember(organization, "ship in May", category="project")
    await remember(organization, "no emoji", memory_type="preference")
    await remember(organization, "short answers", category="user_pref")
    await remember(organization, "the deploy fails", memory_type="error")

    found = await overview(organization, clock)

    assert found["critical"] == ["never push to main"]
    assert found["important"] == ["mind the quota"]
    assert found["decision"] == ["we take Postgres", "layers point down", "ship in May"]
    assert found["preference"] == ["no emoji", "short answers"]
    assert found["open"] == ["the deploy fails"]
    assert found["latest"][-2:] == ["newer and plain", "plain"]
    assert len(found["latest"]) == 10


@pytest.mark.parametrize("tag", OPEN_TAGS)
async def test_tags_mark_what_is_open(
    organization: OrganizationStore, clock: FakeClock, tag: str
) -> None:
    await remember(organization, "rotate the key", tags=("infra", tag))
    await remember(organization, "the key was rotated", tags=("infra",))
    await begin(organization, "the import still stops at row 9", tags=(tag,))

    found = await overview(organization, clock, kinds=("note", "conversation"))

    assert found["open"] == ["rotate the key", "the import still stops at row 9"]


async def test_a_resolved_error_and_a_superseded_decision_are_left_out(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    error, fix = await remember(organization, "disk full", "disk enlarged", memory_type="error")
    old, new = await remember(organization, "use Mongo", "use Postgres", memory_type="decision")
    connect = organization.memories.connect
    await connect(relation(error, fix, "resolved_by"), actor=ACTOR)
    await connect(relation(new, old, "supersedes"), actor=ACTOR)

    found = await overview(organization, clock)

    assert found["open"] == ["disk enlarged"]
    assert found["decision"] == ["use Postgres"]
    assert "use Mongo" not in found["latest"]


async def test_memories_that_ended_expired_or_begin_later_are_left_out(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    soon, past = clock.now() + timedelta(days=1), clock.now() - timedelta(days=1)
    await remember(organization, "expired", importance=0, expires_at=past)
    await remember(organization, "over", importance=0, valid_to=past)
    await remember(organization, "not yet", importance=0, valid_from=soon)
    (gone,) = await remember(organization, "forgotten", importance=0)
    await forget(organization, gone, clock)
    await remember(organization, "now", importance=0, valid_from=past, valid_to=soon)

    found = await overview(organization, clock)

    assert found == {"critical": ["now"], "latest": ["now"]}


@pytest.mark.parametrize("memory_type", ["decision", "context"])
async def test_filters_hold_before_the_newest_are_taken(
    organization: OrganizationStore, clock: FakeClock, memory_type: MemoryType
) -> None:
    fields: dict[str, Any] = {"memory_type": memory_type}
    await remember(organization, "wanted", project="old", category="user_pref", **fields)
    many = [f"other {number}" for number in range(limits.OVERVIEW_LATEST + 1)]
    await remember(organization, *many[:100], project="new", category="project", **fields)
    await remember(organization, *many[100:], project="new", category="project", **fields)

    of_project = await overview(organization, clock, project="old")
    of_category = await overview(organization, clock, category="user_pref")
    of_both = await overview(organization, clock, project="new", category="user_pref")
    preferences = (await overview(organization, clock))["preference"]

    assert {*of_project["latest"]} == {*of_category["latest"]} == {"wanted"}
    assert of_both == {}
    assert preferences == ["wanted"]


async def test_a_conversation_is_known_by_what_was_said_last(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await begin(organization, "let us fix the parser", "the parser is fixed", project="tools")
    clock.advance(timedelta(hours=1))
    await begin(organization, "now the docs")
    await begin(organization)

    both = await overview(organization, clock, kinds=("conversation",))
    tools = await overview(organization, clock, kinds=("conversation",), project="tools")
    filtered = await overview(organization, clock, kinds=("conversation",), category="general")

    assert both == {"latest": ["now the docs", "the parser is fixed"]}
    assert tools == {"latest": ["the parser is fixed"]}
    assert filtered == {}


async def test_only_kinds_that_are_wanted_come(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await remember(organization, "a note")
    await begin(organization, "a message")

    assert await overview(organization, clock) == {"latest": ["a note"]}
    assert await overview(organization, clock, kinds=("document",)) == {}


async def test_nothing_of_another_organisation_is_seen(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    await remember(other, "theirs", importance=0, memory_type="decision", tags=("todo",))
    await begin(other, "theirs too", tags=("todo",))

    assert await overview(organization, clock, kinds=("note", "conversation")) == {}

"""The contract of projects: what names stand for, merging one into another, and what can be taken back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engram.errors import ConflictError, LimitExceededError, NotFoundError
from engram.model.conversation import ConversationQuery
from engram.model.ids import MemoryId
from engram.model.memory import MemoryChange, MemoryDraft, MemoryFilters, MemoryQuery
from engram.model.project import ChangeId, ProjectNames
from engram.model.retention import HoldDraft
from engram.storage.organization import OrganizationStore
from engram.storage.projects import Moving
from tests.fakes import SOME_DAY, FakeClock
from tests.storage import document_drafts, memory_drafts
from tests.storage.drafts import ACTOR, UNBOUNDED, begin, findings

MANY = 1_000


async def names(organization: OrganizationStore) -> ProjectNames:
    return ProjectNames(await organization.projects.list_rules())


async def remember(organization: OrganizationStore, content: str, *, project: str) -> MemoryId:
    draft = MemoryDraft(content=content, project=project)
    return (await memory_drafts.store(organization, draft))[0].id


async def in_project(organization: OrganizationStore, project: str) -> tuple[set[str], set[str]]:
    """Return the titles of the conversations of a project, and what its memories say."""
    talks = await organization.list_conversations(ConversationQuery(project=project, limit=100))
    query = MemoryQuery(limit=100, filters=MemoryFilters(projects=(project,)), validity="any")
    found = await organization.memories.list(query, now=SOME_DAY)
    titles = {each.title or "" for each in talks.conversations}
    return titles, {each.content for each in found.memories}


async def test_a_name_stands_for_a_project_and_nothing_is_kept_of_an_excluded_one(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await organization.projects.set_rule("~/shop", "shop", actor=ACTOR)
    await organization.projects.set_rule("secret", None, actor=ACTOR)

    found = await names(organization)
    assert [found.resolve(each) for each in ("~/shop", "shop", "secret")] == ["shop", "shop", None]
    assert (await names(other)).resolve("~/shop") == "~/shop"
    assert await findings(organization) == []
    await organization.projects.remove_rule("~/shop", actor=ACTOR)
    assert (await names(organization)).resolve("~/shop") == "~/shop"
    with pytest.raises(NotFoundError):
        await organization.projects.remove_rule("~/shop", actor=ACTOR)


async def test_names_of_names_lead_to_the_last_project_and_never_in_a_circle(
    organization: OrganizationStore,
) -> None:
    await organization.projects.set_rule("a", "b", actor=ACTOR)
    await organization.projects.set_rule("b", "c", actor=ACTOR)
    await organization.projects.set_rule("d", "a", actor=ACTOR)

    with pytest.raises(ConflictError):
        await organization.projects.set_rule("c", "a", actor=ACTOR)

    found = await names(organization)
    assert {found.resolve(each) for each in "abcd"} == {"c"}
    await organization.projects.set_rule("c", None, actor=ACTOR)
    assert (await names(organization)).resolve("a") is None


async def test_rules_are_bounded(
    organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.storage.projects.PROJECT_RULES_MAX", 2)
    for project in ("a", "b", "a"):
        await organization.projects.set_rule(project, "z", actor=ACTOR)

    with pytest.raises(LimitExceededError):
        await organization.projects.set_rule("c", "z", actor=ACTOR)


async def test_a_merge_moves_everything_and_moving_the_same_ids_back_undoes_it(
    organization: OrganizationStore, other: OrganizationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.storage.projects.MOVED_TOGETHER", 2)
    for title in ("one", "two", "three"):
        await begin(organization, "The demo is on Friday", title=title, project="~/shop")
    await begin(organization, "elsewhere", title="kept", project="shop")
    await begin(other, "theirs", title="theirs", project="~/shop")
    forgotten = await remember(organization, "an old fact", project="~/shop")
    await organization.memories.forget(forgotten, reason=None, actor=ACTOR, now=SOME_DAY)
    fixed = MemoryDraft(content="a fixed fact", project="~/shop", immutable=True)
    await memory_drafts.store(organization, fixed)
    await document_drafts.store(organization, "# Manual\n\nFerns grow.", project="~/shop")
    episode = await organization.memories.start_episode("~/shop", "a day", actor=ACTOR)
    before = await in_project(organization, "~/shop")

    moving = Moving("~/shop", "a shop with a longer name")
    moved = await organization.projects.move(moving, actor=ACTOR, limit=MANY)

    assert (len(moved.conversations), len(moved.memories), moved.episodes) == (3, 3, (episode,))
    assert await in_project(organization, "~/shop") == (set(), set())
    assert await in_project(organization, moving.to) == before
    assert (await in_project(organization, "shop"))[0] == {"kept"}
    assert (await in_project(other, "~/shop"))[0] == {"theirs"}
    assert await findings(organization) == []
    own = {*moved.conversations, *moved.memories, *moved.episodes}
    await begin(organization, "new", title="new", project=moving.to)
    back = Moving(moving.to, "~/shop", only=own)
    assert await organization.projects.move(back, actor=ACTOR, limit=MANY) == moved
    assert await in_project(organization, "~/shop") == before
    assert (await in_project(organization, moving.to))[0] == {"new"}
    assert await findings(organization) == []


async def test_what_is_under_a_legal_hold_stays_in_its_project(
    organization: OrganizationStore,
) -> None:
    held = await begin(organization, "evidence", title="held", project="a")
    await begin(organization, "nothing", title="free", project="a")
    await remember(organization, "evidence", project="a")
    for hold in (HoldDraft(reason="a suit", id=held), HoldDraft(reason="a suit", kind="note")):
        await organization.retention.add_hold(hold, actor=ACTOR)

    moved = await organization.projects.move(Moving("a", "b"), actor=ACTOR, limit=MANY)

    assert (len(moved.conversations), len(moved.memories), moved.held) == (1, 0, 2)
    assert await in_project(organization, "a") == ({"held"}, {"evidence"})


async def test_a_move_is_bounded_and_goes_on_when_repeated(
    organization: OrganizationStore,
) -> None:
    for number in range(5):
        await begin(organization, "text", title=str(number), project="a")

    first = await organization.projects.move(Moving("a", "b"), actor=ACTOR, limit=3)
    second = await organization.projects.move(Moving("a", "b"), actor=ACTOR, limit=3)

    assert (len(first.conversations), len(second.conversations)) == (3, 2)


async def test_a_correction_after_a_merge_leaves_a_memory_where_it_was_moved_to(
    organization: OrganizationStore,
) -> None:
    memory_id = await remember(organization, "a fact", project="a")
    await organization.projects.move(Moving("a", "b"), actor=ACTOR, limit=MANY)

    corrected = await organization.memories.correct(
        memory_id, MemoryChange(importance=1), actor=ACTOR, quota=UNBOUNDED
    )

    assert corrected.project == "b"
    assert await findings(organization) == []


async def test_what_an_act_changed_is_kept_until_it_is_taken_back_or_too_old(
    organization: OrganizationStore,
    other: OrganizationStore,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engram.storage.projects.CHANGE_SETS_KEPT", 2)
    ids = list[ChangeId]()
    for number in range(3):
        items = {"memories": {"mem_1": number}}
        ids.append(await organization.projects.add_change_set("trash", items, actor=ACTOR))
        clock.advance(timedelta(seconds=1))

    with pytest.raises(NotFoundError):
        await organization.projects.get_change_set(ids[0])
    with pytest.raises(NotFoundError):
        await other.projects.get_change_set(ids[2])
    found = await organization.projects.get_change_set(ids[2])
    assert (found.kind, found.actor, found.items) == ("trash", ACTOR, {"memories": {"mem_1": 2}})
    assert await organization.projects.remove_change_set(ids[2])
    assert not await organization.projects.remove_change_set(ids[2])

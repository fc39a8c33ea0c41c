"""Many memories at once, and undoing exactly what one act has changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import AccessDeniedError, ConflictError, InvalidRequestError, NotFoundError
from engram.model.access import Principal
from engram.model.changes import ManyMemories
from engram.model.conversation import ConversationDraft
from engram.model.ids import MemoryId
from engram.model.memory import MemoryChange, MemoryDraft, MemoryFilters, MemoryQuery
from engram.model.project import ChangeId
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Service]:
    settings = Settings(home=tmp_path / "store", embedder=NoEmbedder())
    if request.param == "postgres":
        settings = replace(settings, database_url=request.getfixturevalue("database_url"))
    async with open_service(settings) as opened:
        yield opened


@pytest.fixture
async def me(service: Service) -> Principal:
    return await service.access.local_principal()


async def remember(service: Service, me: Principal, *contents: str, **fields: str) -> list[str]:
    drafts = [MemoryDraft(content=each, **fields) for each in contents]  # pyright: ignore[reportArgumentType] texts alone
    return [each.id for each in (await service.memories.store_batch(me, drafts)).memories]


async def importances(service: Service, me: Principal) -> dict[str, int]:
    page = await service.memories.list(me, MemoryQuery(limit=100))
    return {each.content: each.importance for each in page.memories}


async def test_undoing_takes_back_what_one_act_changed_and_nothing_else(
    service: Service, me: Principal
) -> None:
    one, two, three = await remember(service, me, "one", "two", "three", project="shop")
    await remember(service, me, "other")
    await service.memories.correct(me, MemoryId(three), MemoryChange(importance=4))

    low = ManyMemories(change="importance", importance=4, project="shop")
    done = await service.changes.change_memories(me, low)
    # In the same moments the same key makes others less important, and one of these critical.
    elsewhere = ManyMemories(change="importance", importance=4, ids=(await _id(service, me),))
    await service.changes.change_memories(me, elsewhere)
    await service.memories.correct(me, MemoryId(two), MemoryChange(importance=0))

    assert (done.total, done.changed, done.refused) == (3, 2, 0)
    assert done.change_id is not None
    undone = await service.changes.undo(me, done.change_id)
    assert (undone.restored, undone.refused) == (1, 1)
    assert await importances(service, me) == {"one": 2, "two": 0, "three": 4, "other": 4}
    with pytest.raises(NotFoundError):
        await service.changes.undo(me, done.change_id)
    assert one


async def _id(service: Service, me: Principal) -> MemoryId:
    page = await service.memories.list(
        me, MemoryQuery(filters=MemoryFilters(projects=("default",)))
    )
    return page.memories[0].id


async def test_what_was_deleted_again_since_stays_in_the_trash(
    service: Service, me: Principal
) -> None:
    one, two = await remember(service, me, "one", "two")
    done = await service.changes.change_memories(me, ManyMemories(change="trash"))
    assert done.change_id is not None
    await service.trash.restore(me, one)
    await service.memories.purge(me, MemoryId(one), undo=True)

    undone = await service.changes.undo(me, done.change_id)

    assert (undone.kind, undone.restored, undone.refused) == ("trash", 1, 1)
    assert list(await importances(service, me)) == ["two"]
    assert two


async def test_one_call_is_bounded_and_a_dry_run_changes_nothing(
    service: Service, me: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEMORIES_CHANGED_MAX", 2)
    await remember(service, me, "one", "two", "three")
    trash = ManyMemories(change="trash")

    planned = await service.changes.change_memories(me, replace(trash, dry_run=True))

    assert (planned.total, planned.changed, planned.change_id) == (3, 2, None)
    assert len(await importances(service, me)) == 3
    await service.changes.change_memories(me, trash)
    assert list(await importances(service, me)) == ["one"]


async def test_a_merge_is_undone_with_the_name_as_it_was(service: Service, me: Principal) -> None:
    await service.conversations.create_conversation(me, ConversationDraft(project="old"))
    await remember(service, me, "a fact", project="old")
    merged = await service.projects.merge(me, "old", into="new")
    assert (merged.conversations, merged.memories, merged.truncated) == (1, 1, False)
    assert [(each.project, each.same_as) for each in await service.projects.rules(me)] == [
        ("old", "new")
    ]
    await remember(service, me, "a later fact", project="new")

    undone = await service.changes.undo(me, merged.change_id)

    assert (undone.kind, undone.restored, undone.refused) == ("merge", 2, 0)
    assert await service.projects.rules(me) == ()
    counts = {each.project: each.memories for each in await service.projects.count(me)}
    assert counts == {"new": 1, "old": 1}


async def test_a_merge_into_itself_or_into_its_own_name_is_refused(
    service: Service, me: Principal
) -> None:
    await service.projects.alias(me, "b", same_as="a")

    with pytest.raises(InvalidRequestError):
        await service.projects.merge(me, "a", into="a")
    with pytest.raises(ConflictError):
        await service.projects.merge(me, "a", into="b")


async def test_a_forgotten_memory_is_found_again_when_it_is_restored(
    service: Service, me: Principal
) -> None:
    (memory_id,) = await remember(service, me, "The demo is on Friday")
    await service.memories.forget(me, MemoryId(memory_id), reason="it was moved")

    restored = await service.memories.restore(me, MemoryId(memory_id))

    assert (restored.is_searched, restored.valid_to, restored.reason) == (True, None, None)
    assert list(await importances(service, me)) == ["The demo is on Friday"]
    assert (await service.memories.restore(me, MemoryId(memory_id))).version == restored.version


@pytest.mark.parametrize(
    ("kind", "missing"), [("trash", "delete"), ("importance", "write"), ("merge", "admin")]
)
async def test_undoing_takes_the_scopes_of_the_act(
    service: Service, me: Principal, kind: str, missing: str
) -> None:
    await remember(service, me, "one", project="old")
    if kind == "merge":
        change_id: ChangeId | None = (await service.projects.merge(me, "old", into="new")).change_id
    else:
        importance = 4 if kind == "importance" else None
        request = ManyMemories(change=kind, importance=importance)  # pyright: ignore[reportArgumentType] one of them
        change_id = (await service.changes.change_memories(me, request)).change_id
    assert change_id is not None
    narrow = replace(me, scopes=me.scopes - {missing})

    with pytest.raises(AccessDeniedError):
        await service.changes.undo(narrow, change_id)

    assert (await service.changes.undo(me, change_id)).restored == 1


def test_an_importance_goes_with_its_change_alone() -> None:
    for change, importance in (("trash", 3), ("importance", None)):
        with pytest.raises(InvalidRequestError):
            ManyMemories(change=change, importance=importance)  # pyright: ignore[reportArgumentType] both are given

"""Typed memories: each use case keeps its word."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    RequestTooLargeError,
)
from engram.model.access import Principal
from engram.model.ids import ChunkId, MemoryId
from engram.model.memory import (
    Feedback,
    Memory,
    MemoryChange,
    MemoryDraft,
    MemoryFilters,
    MemoryQuery,
    RelationDraft,
)
from engram.model.recall import MemoryFetch, TimelineQuery
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_service
from tests.fakes import SOME_DAY, FakeClock
from tests.promises import promise
from tests.service.embedders import NamedEmbedder
from tests.tool_calls import call_tool

LONG = "".join(
    f"Paragraph {number} speaks of harbours, ébauches and 港.\n\n" for number in range(400)
)


@asynccontextmanager
async def opened(home: Path, embedder: NamedEmbedder) -> AsyncGenerator[tuple[Service, Principal]]:
    """Open a service that makes vectors as memories are stored."""
    clock, ids = FakeClock(), RandomIds()
    store = SqliteStore(home, clock=clock, ids=ids)
    await store.open()
    tiers = Tiers.of(deep=None, instant=embedder)
    settings = Settings(home=home, embedder=NoEmbedder())
    service = build_service(store, tiers, settings, clock=clock, ids=ids)
    try:
        yield service, await service.access.local_principal()
    finally:
        await tiers.close()
        await store.close()


async def kept(service: Service, principal: Principal, content: str, **given: Any) -> MemoryId:
    draft = MemoryDraft(content=content, **given)
    (stored,) = (await service.memories.store(principal, draft)).memories
    return stored.id


async def read(service: Service, principal: Principal, memory_id: MemoryId) -> Memory:
    fetched = await service.memories.fetch(principal, MemoryFetch(id=memory_id))
    return fetched.memory


# --- keeping ------------------------------------------------------------------------------------


async def test_a_tag_with_a_date_says_from_when_a_memory_holds(
    service: Service, principal: Principal
) -> None:
    tagged = await call_tool(
        service, principal, "memory_store", content="moved", tags=["x", "date:2025-03-04"]
    )
    given = await call_tool(
        service,
        principal,
        "memory_store",
        content="moved",
        tags=["date:2025-03-04"],
        valid_from="2024-01-01T00:00:00Z",
    )

    days = [
        (await read(service, principal, MemoryId(answer["id"]))).valid_from
        for answer in (tagged, given)
    ]
    assert [day and day.date().isoformat() for day in days] == ["2025-03-04", "2024-01-01"]


async def test_a_batch_that_is_too_large_as_a_whole_is_refused(
    service: Service, principal: Principal
) -> None:
    drafts = [MemoryDraft(content="x" * 500_000)] * 70

    with pytest.raises(RequestTooLargeError):
        await service.memories.store_batch(principal, drafts)

    assert (await service.memories.list(principal, MemoryQuery())).total == 0


async def test_a_batch_with_an_unknown_episode_stores_nothing(
    service: Service, principal: Principal
) -> None:
    drafts = [MemoryDraft(content="one"), MemoryDraft(content="two", episode_id=_episode("ep_no"))]

    with pytest.raises(NotFoundError):
        await service.memories.store_batch(principal, drafts)

    assert (await service.memories.list(principal, MemoryQuery())).total == 0


def _episode(name: str) -> Any:
    return name


# --- reading ------------------------------------------------------------------------------------


async def test_the_chunks_of_a_long_memory_join_back_to_it(
    service: Service, principal: Principal
) -> None:
    memory_id = await kept(service, principal, LONG)

    fetched = await service.memories.fetch(
        principal, MemoryFetch(id=memory_id, detail="chunk", token_budget=100_000)
    )

    assert fetched.chunks is not None
    assert len(fetched.chunks) == fetched.chunk_count > 1
    assert "".join(chunk.text or "" for chunk in fetched.chunks) == LONG
    assert not fetched.is_truncated


async def test_chunks_past_the_budget_come_as_handles_that_can_be_read(
    service: Service, principal: Principal
) -> None:
    memory_id = await kept(service, principal, LONG)

    first = await service.memories.fetch(
        principal, MemoryFetch(id=memory_id, detail="chunk", token_budget=1_000)
    )
    assert first.chunks is not None
    missing = [chunk.id for chunk in first.chunks if chunk.text is None]
    rest = await service.memories.fetch(
        principal,
        MemoryFetch(id=memory_id, detail="chunk", chunk_ids=tuple(missing), token_budget=100_000),
    )

    assert first.is_truncated
    assert rest.chunks is not None
    assert [chunk.id for chunk in rest.chunks] == missing
    texts = [chunk.text or "" for chunk in (*first.chunks, *rest.chunks)]
    assert "".join(texts) == LONG


async def test_a_full_text_past_the_budget_is_cut_and_says_so(
    service: Service, principal: Principal
) -> None:
    memory_id = await kept(service, principal, "é" * 1_000)

    cut = await service.memories.fetch(
        principal, MemoryFetch(id=memory_id, detail="full", token_budget=100)
    )
    whole = await service.memories.fetch(principal, MemoryFetch(id=memory_id, detail="full"))

    assert (cut.content, cut.is_truncated) == ("é" * 500, True)
    assert (whole.content, whole.is_truncated) == ("é" * 1_000, False)


async def test_an_unknown_chunk_is_refused(service: Service, principal: Principal) -> None:
    memory_id = await kept(service, principal, "short")
    asked = MemoryFetch(id=memory_id, detail="chunk", chunk_ids=(ChunkId("chk_no"),))

    with pytest.raises(NotFoundError):
        await service.memories.fetch(principal, asked)


async def test_a_memory_of_another_project_is_as_unknown_as_none(
    service: Service, principal: Principal
) -> None:
    memory_id = await kept(service, principal, "kept at sea", project="sea")
    memories = service.memories
    calls: list[Callable[[MemoryId], Awaitable[object]]] = [
        lambda one: memories.fetch(principal, MemoryFetch(id=one, project="land")),
        lambda one: memories.history(principal, one, project="land"),
        lambda one: memories.correct(principal, one, MemoryChange(importance=0), project="land"),
        lambda one: memories.forget(principal, one, project="land"),
        lambda one: memories.feedback(principal, Feedback(memory_ids=(one,)), project="land"),
        lambda one: memories.connect(
            principal, RelationDraft(source_id=one, target_id=MemoryId("mem_y")), project="land"
        ),
    ]

    for call in calls:
        words: list[str] = []
        for one in (memory_id, MemoryId("mem_absent")):
            with pytest.raises(NotFoundError) as refused:
                await call(one)
            words.append(str(refused.value).replace(one, "…"))
        assert words[0] == words[1]
        assert "'land'" in words[0]
    assert (await read(service, principal, memory_id)).is_searched


async def test_a_listing_keeps_to_its_filters(service: Service, principal: Principal) -> None:
    await kept(service, principal, "a", project="p", tags=("x",), memory_type="error")
    await kept(service, principal, "b", project="p", tags=("y",))
    await kept(service, principal, "c", project="q", tags=("x",))

    filters = MemoryFilters(projects=("p",), tags=("x", "y"))
    both = await service.memories.list(principal, MemoryQuery(filters=filters))
    errors = await service.memories.list(
        principal, MemoryQuery(filters=replace(filters, memory_types=("error",)))
    )

    assert [memory.content for memory in both.memories] == ["b", "a"]
    assert [memory.content for memory in errors.memories] == ["a"]


# --- tending ------------------------------------------------------------------------------------


@promise("versions")
async def test_a_correction_keeps_what_was_said_before(
    service: Service, principal: Principal, clock: FakeClock
) -> None:
    memory_id = await kept(service, principal, "opens at six", tags=("t",), importance=1)
    clock.advance(timedelta(hours=1))

    corrected = await service.memories.correct(
        principal, memory_id, MemoryChange(content="opens at seven")
    )
    history = await service.memories.history(principal, memory_id)

    assert (corrected.content, corrected.version) == ("opens at seven", 2)
    assert (corrected.tags, corrected.importance) == (("t",), 1)
    (before,) = history.versions
    assert (before.memory.content, before.change) == ("opens at six", "update")
    assert before.ended_at == clock.now()


@pytest.mark.parametrize(("tags", "expected"), [(None, ("t", "u")), ((), ()), (("v",), ("v",))])
async def test_tags_are_kept_cleared_or_replaced(
    service: Service,
    principal: Principal,
    tags: tuple[str, ...] | None,
    expected: tuple[str, ...],
) -> None:
    memory_id = await kept(service, principal, "tagged", tags=("t", "u"))

    corrected = await service.memories.correct(
        principal, memory_id, MemoryChange(importance=3, tags=tags)
    )

    assert (corrected.tags, corrected.importance) == (expected, 3)


@promise("findable")
@pytest.mark.parametrize(
    "change",
    [
        MemoryChange(content="opens at seven"),
        MemoryChange(valid_from=SOME_DAY - timedelta(days=1)),
        MemoryChange(importance=0, tags=("x",)),
    ],
)
async def test_a_corrected_memory_is_found_by_meaning_at_once(
    tmp_path: Path, change: MemoryChange
) -> None:
    async with opened(tmp_path, NamedEmbedder("quick")) as (service, principal):
        memory_id = await kept(service, principal, "opens at six")

        await service.memories.correct(principal, memory_id, change)

        counters = (await service.account.status(principal)).counters
        assert (counters.memories, counters.vectors, counters.pending) == (1, 1, 0)


@promise("immutable")
async def test_an_immutable_memory_is_neither_corrected_nor_forgotten_nor_removed(
    service: Service, principal: Principal
) -> None:
    memory_id = await kept(service, principal, "carved in stone", immutable=True)

    for call in (
        service.memories.correct(principal, memory_id, MemoryChange(importance=0)),
        service.memories.forget(principal, memory_id),
        service.memories.purge(principal, memory_id),
    ):
        with pytest.raises(ConflictError):
            await call

    assert (await read(service, principal, memory_id)).version == 1


@promise("forgetting")
async def test_a_forgotten_memory_stays_in_the_past(
    service: Service, principal: Principal, clock: FakeClock
) -> None:
    memory_id = await kept(service, principal, "true for a day")
    learned = clock.now()
    clock.advance(timedelta(days=1))

    forgotten = await service.memories.forget(principal, memory_id, reason="the day is over")
    again = await service.memories.forget(principal, memory_id, reason="really")

    assert (forgotten.is_searched, forgotten.valid_to) == (False, clock.now())
    assert again == forgotten
    assert (await service.memories.list(principal, MemoryQuery())).total == 0
    then = await service.memories.timeline(principal, TimelineQuery(as_of=learned))
    now = await service.memories.timeline(principal, TimelineQuery(as_of=clock.now()))
    assert [memory.id for memory in then] == [memory_id]
    assert now == ()


async def test_nobody_can_look_into_the_future(service: Service, principal: Principal) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await service.memories.timeline(
            principal, TimelineQuery(as_of=SOME_DAY + timedelta(microseconds=1))
        )

    assert refused.value.field == "as_of"


async def test_relations_are_found_from_both_ends(service: Service, principal: Principal) -> None:
    cause, effect = [await kept(service, principal, text) for text in ("storm", "flood")]

    made = await service.memories.connect(
        principal,
        RelationDraft(source_id=effect, target_id=cause, relation_type="caused_by", strength=0.5),
    )

    for end in (cause, effect):
        assert await service.memories.relations(principal, end) == (made,)
    with pytest.raises(NotFoundError):
        await service.memories.relations(principal, MemoryId("mem_absent"))


async def test_superseding_in_a_circle_is_refused(service: Service, principal: Principal) -> None:
    one, two, three = [await kept(service, principal, text) for text in ("one", "two", "three")]
    for source, target in ((two, one), (three, two)):
        await service.memories.connect(principal, supersedes(source, target))

    with pytest.raises(InvalidRequestError):
        await service.memories.connect(principal, supersedes(one, three))


def supersedes(source: MemoryId, target: MemoryId) -> RelationDraft:
    return RelationDraft(source_id=source, target_id=target, relation_type="supersedes")


async def test_projects_and_status_count_what_is_searched(
    service: Service, principal: Principal
) -> None:
    await kept(service, principal, "a", project="p", memory_type="error", importance=0)
    gone = await kept(service, principal, "b", project="p")
    await kept(service, principal, "c", project="q")
    await service.memories.forget(principal, gone)

    projects = await service.memories.projects(principal)
    only = await service.memories.projects(principal, project="q")
    status = await service.memories.status(principal, "p")

    assert [(size.project, size.count) for size in projects] == [("p", 1), ("q", 1)]
    assert [size.project for size in only] == ["q"]
    assert (status.memories, status.forgotten) == (1, 1)
    assert status.by_type == {"error": 1}
    assert status.by_importance == {0: 1}


async def test_each_use_case_asks_for_its_scope(service: Service, principal: Principal) -> None:
    nobody = replace(principal, scopes=frozenset())
    one, memories = MemoryId("mem_x"), service.memories
    relation = RelationDraft(source_id=one, target_id=MemoryId("mem_y"))
    calls: dict[str, list[Awaitable[object]]] = {
        "write": [
            memories.store(nobody, MemoryDraft(content="x")),
            memories.store_batch(nobody, [MemoryDraft(content="x")]),
            memories.connect(nobody, relation),
            memories.correct(nobody, one, MemoryChange(importance=0)),
            memories.feedback(nobody, Feedback(memory_ids=(one,))),
        ],
        "read": [
            memories.fetch(nobody, MemoryFetch(id=one)),
            memories.list(nobody, MemoryQuery()),
            memories.history(nobody, one),
            memories.timeline(nobody, TimelineQuery(as_of=SOME_DAY)),
            memories.relations(nobody, one),
            memories.projects(nobody),
            memories.status(nobody),
        ],
        "delete": [memories.forget(nobody, one), memories.purge(nobody, one)],
    }

    for scope, asked in calls.items():
        for call in asked:
            with pytest.raises(AccessDeniedError) as refused:
                await call
            assert refused.value.required == scope

"""Background work makes room for callers, and still gets done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engram import limits
from engram.clock import RandomIds
from engram.embedding.tiers import Tiers
from engram.errors import NotFoundError
from engram.model.access import OrganizationDraft, Principal, Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import ConversationId
from engram.model.search import SearchRequest
from engram.model.vectors import Indexing
from engram.service import Service
from engram.service.access.usage import Activity
from engram.service.work.indexing import STORED_TOGETHER, STORED_TOGETHER_BUSY, Indexer
from engram.service.work.schedule import (
    LOOK_S,
    PASSAGES_TOGETHER,
    REST_MAX_S,
    RESTS,
    Pace,
    PacedEmbedder,
)
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.embedders import NamedEmbedder

if TYPE_CHECKING:
    from engram.embedding.port import Vectors


class Naps:
    """Sleeps that take no time; something may happen in each."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.slept: list[float] = []
        self._then = then

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._then()


class CountingEmbedder(NamedEmbedder):
    """Remembers how many texts it was asked for at once."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.counts: list[int] = []

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        self.counts.append(len(passages))
        return await super().embed_passages(passages)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path, clock=FakeClock(), ids=RandomIds())
    await store.open()
    yield store
    await store.close()


async def filled(store: SqliteStore, *, messages: int) -> OrganizationStore:
    """Return a new organisation whose messages wait for vectors."""
    draft = OrganizationDraft(name="Acme")
    made = await store.control.create_organization(draft, actor="test")
    organization = await store.organization(made.id)
    drafts = tuple(MessageDraft(role="user", content=f"text {at}") for at in range(messages))
    await organization.append_messages(
        AppendRequest(messages=drafts),
        actor="test",
        quota=Quota(),
        indexing=Indexing(is_queued=True),
    )
    return organization


async def test_work_that_nobody_noticed_is_not_followed_by_a_rest() -> None:
    naps = Naps()

    await Pace(Activity(), sleep=naps).rest(worked_s=1)

    assert naps.slept == []


@promise("fair")
@pytest.mark.parametrize(("worked_s", "rest_s"), [(0.1, 0.1 * RESTS), (60, REST_MAX_S)])
async def test_a_rest_beside_callers_is_some_times_as_long_as_the_work(
    worked_s: float, rest_s: float
) -> None:
    naps, activity = Naps(), Activity()

    with activity.answering():
        await Pace(activity, sleep=naps).rest(worked_s=worked_s)

    assert sum(naps.slept) == pytest.approx(rest_s)


async def test_a_rest_ends_when_callers_have_stopped_coming() -> None:
    activity = Activity()
    callers = iter(range(3))

    def ask() -> None:
        for _ in callers:
            with activity.answering():
                return

    naps = Naps(ask)
    ask()

    await Pace(activity, sleep=naps).rest(worked_s=1)

    assert naps.slept == [LOOK_S] * 3


async def test_callers_who_never_stop_slow_indexing_down_and_do_not_stop_it(
    store: SqliteStore,
) -> None:
    activity, embedder, naps = Activity(), CountingEmbedder(), Naps()
    indexer = Indexer(store, Tiers.of(deep=embedder), owner="one")
    organization = await filled(store, messages=20)

    with activity.answering():
        done = await indexer.work(organization.organization_id, pace=Pace(activity, sleep=naps))

    assert done == 20
    assert embedder.counts == [STORED_TOGETHER_BUSY] * 5
    assert len(naps.slept) >= 5


async def test_indexing_does_not_rest_while_nobody_asks(store: SqliteStore) -> None:
    embedder, naps = CountingEmbedder(), Naps()
    indexer = Indexer(store, Tiers.of(deep=embedder), owner="one")
    organization = await filled(store, messages=20)

    await indexer.work(organization.organization_id, pace=Pace(Activity(), sleep=naps))

    assert embedder.counts == [STORED_TOGETHER, 20 - STORED_TOGETHER]
    assert naps.slept == []


async def test_a_long_message_leaves_room_between_its_passages() -> None:
    activity, embedder, naps = Activity(), CountingEmbedder(), Naps()
    paced = PacedEmbedder(embedder, Pace(activity, sleep=naps))
    passages = [f"passage {number}" for number in range(2 * PASSAGES_TOGETHER + 1)]

    with activity.answering():
        vectors = await paced.embed_passages(passages)

    assert embedder.counts == [PASSAGES_TOGETHER, PASSAGES_TOGETHER, 1]
    assert len(naps.slept) >= 3
    assert vectors.tolist() == (await embedder.embed_passages(passages)).tolist()


async def test_what_a_caller_waits_for_does_not_make_room_for_callers(store: SqliteStore) -> None:
    activity, embedder, naps = Activity(), CountingEmbedder(), Naps()
    pace = Pace(activity, sleep=naps)
    indexer = Indexer(store, Tiers.of(deep=embedder), owner="one", pace=pace)
    organization = await filled(store, messages=20)

    with activity.answering():
        await indexer.drain(organization.organization_id, limit_s=limits.INDEX_DRAIN_S)

    assert embedder.counts == [STORED_TOGETHER, 20 - STORED_TOGETHER]
    assert naps.slept == []


async def test_appends_and_searches_are_counted_whatever_becomes_of_them(
    service: Service, principal: Principal
) -> None:
    drafts = (MessageDraft(role="user", content="The ferry leaves at nine."),)
    nowhere = ConversationId("cnv_nowhere")

    await service.conversations.append_messages(principal, AppendRequest(messages=drafts))
    with pytest.raises(NotFoundError):
        await service.conversations.append_messages(
            principal, AppendRequest(messages=drafts, conversation_id=nowhere)
        )
    await service.search.search(principal, SearchRequest(query="ferry"))

    assert service.activity.begun == 3
    assert service.activity.in_flight == 0

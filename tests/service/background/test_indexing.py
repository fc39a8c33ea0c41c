"""The indexer: newest first, shared by all processes, and stopped by nothing for long."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from engram import limits
from engram.clock import RandomIds
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import (
    EmbedderMismatchError,
    EmbedderUnavailableError,
    EngramError,
    InvalidRequestError,
    InvalidVectorError,
    LimitExceededError,
)
from engram.model.access import Organization, OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.vectors import Indexing
from engram.service.work.indexing import EMBEDDER_DELAY_MAX_S, EMBEDDER_DELAY_S, LEASE, Indexer
from engram.storage.organization import OrganizationStore
from engram.storage.queue import RETRY_DELAY, RETRY_DELAY_MAX
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.embedders import NamedEmbedder

if TYPE_CHECKING:
    from engram.embedding.port import Vectors


class ScriptedEmbedder(NamedEmbedder):
    """Fails as it is told, stops where it is told, and remembers what it has embedded."""

    def __init__(self, name: str = "scripted") -> None:
        super().__init__(name)
        self.seen: list[str] = []
        self.failure: EngramError | None = None
        """Raised for everything."""
        self.refused: dict[str, EngramError] = {}
        """Raised for single texts, and for all that are asked for together with them."""
        self.asked = asyncio.Event()
        """Set when it is asked for passages."""
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        self.asked.set()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        for passage in passages:
            if passage in self.refused:
                raise self.refused[passage]
        self.seen += passages
        return await super().embed_passages(passages)


class Naps:
    """Time that passes when the test lets it; remembers how long was slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.began = asyncio.Event()
        self._may_end = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.began.set()
        await self._may_end.wait()
        self._may_end.clear()

    async def end(self) -> None:
        """Wait for a nap to begin, and end it."""
        await self.began.wait()
        self.began.clear()
        self._may_end.set()


class Workplace:
    """An installation with one organisation, and as many indexers as a test asks for."""

    def __init__(self, store: SqliteStore, organization: Organization, clock: FakeClock) -> None:
        self.store = store
        self.id = organization.id
        self.clock = clock
        self.naps = Naps()

    def indexer(self, embedder: HashedEmbedder, *, owner: str = "one") -> Indexer:
        return Indexer(self.store, Tiers.of(deep=embedder), owner=owner, sleep=self.naps)

    async def opened(self) -> OrganizationStore:
        return await self.store.organization(self.id)

    async def append(self, *texts: str, is_queued: bool = True) -> None:
        """Store messages that wait, or that nobody will embed."""
        drafts = tuple(MessageDraft(role="user", content=text) for text in texts)
        for start in range(0, len(drafts), limits.MESSAGES_PER_CALL_MAX):
            some = drafts[start : start + limits.MESSAGES_PER_CALL_MAX]
            await (await self.opened()).append_messages(
                AppendRequest(messages=some),
                actor="test",
                quota=Quota(),
                indexing=Indexing(is_queued=is_queued),
            )

    async def pending(self) -> int:
        return (await (await self.opened()).counters()).pending

    async def vectors(self) -> int:
        return (await (await self.opened()).counters()).vectors

    async def until_pending(self, count: int) -> None:
        """Return when so many messages wait."""
        with anyio.fail_after(60):
            while await self.pending() != count:
                pass


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Workplace]:
    """Yield an empty workplace."""
    clock = FakeClock()
    store = SqliteStore(tmp_path, clock=clock, ids=RandomIds())
    await store.open()
    draft = OrganizationDraft(name="Acme")
    organization = await store.control.create_organization(draft, actor="test")
    yield Workplace(store, organization, clock)
    await store.close()


@pytest.fixture
def embedder() -> ScriptedEmbedder:
    """Return an embedder that does as it is told."""
    return ScriptedEmbedder()


@asynccontextmanager
async def running(*indexers: Indexer) -> AsyncGenerator[None]:
    """Let indexers run for as long as the block does."""
    tasks = [asyncio.create_task(indexer.run()) for indexer in indexers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with anyio.fail_after(60):
            await asyncio.wait(tasks)


def numbered(count: int) -> list[str]:
    return [f"text {number:04}" for number in range(count)]


async def test_messages_are_embedded_newest_first(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    texts = numbered(2 * limits.INDEX_BATCH_MESSAGES)
    await place.append(*texts)

    done = await place.indexer(embedder).work(place.id)

    assert done == limits.INDEX_BATCH_MESSAGES
    assert sorted(embedder.seen) == texts[-done:]
    assert await place.pending() == done


async def test_all_that_waits_is_embedded_once(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    texts = numbered(150)
    await place.append(*texts)
    indexer = place.indexer(embedder)

    while await indexer.work(place.id):
        pass

    assert sorted(embedder.seen) == texts
    assert (await place.pending(), await place.vectors()) == (0, 150)


@promise("processes")
async def test_several_indexers_share_the_work(place: Workplace) -> None:
    texts = numbered(300)
    await place.append(*texts)
    embedders = [ScriptedEmbedder() for _ in range(4)]
    indexers = [
        place.indexer(each, owner=f"process {number}") for number, each in enumerate(embedders)
    ]

    for indexer in indexers:
        indexer.enqueue(place.id)

    async with running(*indexers):
        await place.until_pending(0)

    counts = Counter(text for each in embedders for text in each.seen)
    assert counts == Counter(texts)
    assert sum(bool(each.seen) for each in embedders) > 1
    assert await place.vectors() == 300


async def test_an_organisation_filled_without_an_embedder_is_indexed_by_the_first_one(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append("one", "two", is_queued=False)

    (due,) = await place.store.claim_due(["vectors"], lease=LEASE, limit=1)
    indexer = place.indexer(embedder)
    indexer.enqueue(due.organization_id)
    running = asyncio.create_task(indexer.run())
    with anyio.fail_after(60):
        while await place.vectors() != 2:
            pass
    running.cancel()

    assert await place.pending() == 0
    assert sorted(embedder.seen) == ["one", "two"]


async def test_the_first_indexer_takes_up_what_was_stored_before_it(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    drafts = tuple(MessageDraft(role="user", content=text) for text in numbered(3))
    await (await place.opened()).append_messages(
        AppendRequest(messages=drafts), actor="test", quota=Quota()
    )
    assert await place.pending() == 0

    assert await place.indexer(embedder).work(place.id) == 3


@pytest.mark.parametrize(
    "failure", [EmbedderUnavailableError("down"), EmbedderMismatchError("another answers")]
)
async def test_a_failure_of_the_embedder_gives_every_message_back(
    place: Workplace, embedder: ScriptedEmbedder, failure: EngramError
) -> None:
    await place.append(*numbered(40))
    embedder.failure = failure

    with pytest.raises(type(failure)):
        await place.indexer(embedder).work(place.id)

    assert await place.pending() == 40
    assert not await (await place.opened()).has_leased()
    embedder.failure = None
    assert await place.indexer(embedder, owner="two").work(place.id) == 40


async def test_what_was_stored_before_a_failure_stays(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append(*numbered(40), "a text that is longer than all of the others")
    down = EmbedderUnavailableError("down")
    embedder.refused = {"a text that is longer than all of the others": down}

    with pytest.raises(EmbedderUnavailableError):
        await place.indexer(embedder).work(place.id)

    assert 0 < await place.pending() < 41
    assert await place.pending() + await place.vectors() == 41
    embedder.refused = {}
    indexer = place.indexer(embedder)
    while await indexer.work(place.id):
        pass
    assert Counter(embedder.seen).most_common(1)[0][1] == 1


async def test_a_running_indexer_waits_longer_each_time_and_recovers(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append("text")
    embedder.failure = EmbedderUnavailableError("down")
    indexer = place.indexer(embedder)
    indexer.enqueue(place.id)

    async with running(indexer):
        with anyio.fail_after(60):
            for _ in range(6):
                await place.naps.end()
            await place.naps.began.wait()
        assert await place.pending() == 1
        embedder.failure = None
        await place.naps.end()
        await place.until_pending(0)

    expected = [min(EMBEDDER_DELAY_S * 2**n, EMBEDDER_DELAY_MAX_S) for n in range(7)]
    assert place.naps.slept == expected


async def test_an_error_nobody_expects_does_not_end_the_loop(
    place: Workplace,
    embedder: ScriptedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await place.append("text")
    embed = ScriptedEmbedder.embed_passages

    async def break_once(self: ScriptedEmbedder, passages: Sequence[str]) -> Vectors:
        monkeypatch.setattr(ScriptedEmbedder, "embed_passages", embed)
        raise RuntimeError(f"{len(passages)} broke it")

    monkeypatch.setattr(ScriptedEmbedder, "embed_passages", break_once)

    indexer = place.indexer(embedder)
    indexer.enqueue(place.id)
    async with running(indexer):
        with anyio.fail_after(60):
            await place.naps.began.wait()
        place.clock.advance(LEASE)
        indexer.enqueue(place.id)
        await place.naps.end()
        await place.until_pending(0)
    assert "1 broke it" in caplog.text


@pytest.mark.parametrize(
    "refusal",
    [
        InvalidRequestError("not this text"),
        InvalidVectorError("zero"),
        LimitExceededError("passage", limit=1, actual=2, unit="tokens"),
    ],
)
async def test_a_message_that_gets_no_vector_keeps_no_other_from_its(
    place: Workplace, embedder: ScriptedEmbedder, refusal: EngramError
) -> None:
    texts = numbered(40)
    await place.append(*texts)
    embedder.refused = {"text 0020": refusal}

    assert await place.indexer(embedder).work(place.id) == 39

    assert set(texts) - set(embedder.seen) == {"text 0020"}
    assert await place.pending() == 1


async def test_a_refused_message_is_tried_again_and_waits_longer_each_time(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append("refused")
    indexer = place.indexer(embedder)
    embedder.refused = {"refused": InvalidRequestError("not this text")}
    await indexer.work(place.id)

    delays = [await delay_until_asked(place, indexer, embedder) for _ in range(12)]

    assert delays[:3] == [2 * RETRY_DELAY, 4 * RETRY_DELAY, 8 * RETRY_DELAY]
    assert delays[-1] == RETRY_DELAY_MAX
    assert await place.pending() == 1
    embedder.refused = {}
    place.clock.advance(RETRY_DELAY_MAX)
    assert await indexer.work(place.id) == 1


async def delay_until_asked(
    place: Workplace, indexer: Indexer, embedder: ScriptedEmbedder
) -> timedelta:
    """Let time pass until a message is tried again; return how much did."""
    embedder.asked.clear()
    passed = timedelta()
    while not embedder.asked.is_set():
        place.clock.advance(RETRY_DELAY)
        passed += RETRY_DELAY
        await indexer.work(place.id)
    return passed


async def test_a_cancelled_indexer_gives_its_messages_back(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append(*numbered(20))
    embedder.may_answer.clear()
    work = asyncio.create_task(place.indexer(embedder).work(place.id))
    with anyio.fail_after(60):
        await embedder.asked.wait()
    assert await (await place.opened()).has_leased()

    work.cancel()
    await asyncio.wait([work])

    assert work.cancelled()
    assert not await (await place.opened()).has_leased()
    other = ScriptedEmbedder()
    assert await place.indexer(other, owner="two").work(place.id) == 20


async def test_vectors_of_another_embedder_are_told_once_and_nothing_is_indexed(
    place: Workplace, embedder: ScriptedEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    await place.append("text")
    assert await place.indexer(embedder).work(place.id) == 1
    await place.append("more text")
    other = ScriptedEmbedder("another")
    indexer = place.indexer(other, owner="two")

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await indexer.work(place.id) == 0

    assert other.seen == []
    assert await place.pending() == 1
    assert caplog.text.count("engram reembed") == 1


async def test_an_organisation_deleted_meanwhile_is_no_failure(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append(*numbered(20))
    embedder.may_answer.clear()
    work = asyncio.create_task(place.indexer(embedder).work(place.id))
    with anyio.fail_after(60):
        await embedder.asked.wait()

    await place.store.control.delete_organization(place.id, actor="test")
    embedder.may_answer.set()

    assert await work == 0
    assert await place.indexer(embedder).work(place.id) == 0


async def test_a_broken_organisation_does_not_keep_others_from_their_vectors(
    place: Workplace,
    embedder: ScriptedEmbedder,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    draft = OrganizationDraft(name="broken")
    broken = await place.store.control.create_organization(draft, actor="test")
    (tmp_path / "orgs" / f"{broken.id}.db").write_bytes(b"not a database" * 100)
    await place.append("text")
    indexer = place.indexer(embedder)
    indexer.enqueue(broken.id)
    indexer.enqueue(place.id)

    async with running(indexer):
        await place.until_pending(0)

    assert broken.id in caplog.text


async def test_a_running_indexer_takes_up_what_it_is_told_of(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    indexer = place.indexer(embedder)

    async with running(indexer):
        for number in range(3):
            await place.append(f"text {number}")
            indexer.enqueue(place.id)
            await place.until_pending(0)

    assert embedder.seen == ["text 0", "text 1", "text 2"]


async def test_without_an_embedder_there_is_nothing_to_run(place: Workplace) -> None:
    indexer = Indexer(place.store, Tiers(), owner="one")
    indexer.enqueue(place.id)

    with anyio.fail_after(60):
        await indexer.run()

    assert await indexer.work(place.id) == 0
    assert not indexer.has_lag


async def test_draining_indexes_what_waits(place: Workplace, embedder: ScriptedEmbedder) -> None:
    await place.append(*numbered(150))

    await place.indexer(embedder).drain(place.id, limit_s=60)

    assert await place.pending() == 0


async def test_draining_stops_when_its_time_is_up(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append(*numbered(20))
    embedder.may_answer.clear()

    with anyio.fail_after(60):
        await place.indexer(embedder).drain(place.id, limit_s=0.01)

    assert await place.pending() == 20
    assert not await (await place.opened()).has_leased()


async def test_draining_waits_for_what_another_process_holds(
    place: Workplace, embedder: ScriptedEmbedder
) -> None:
    await place.append("text")
    embedder.may_answer.clear()
    work = asyncio.create_task(place.indexer(embedder).work(place.id))
    with anyio.fail_after(60):
        await embedder.asked.wait()
    draining = asyncio.create_task(
        place.indexer(ScriptedEmbedder(), owner="two").drain(place.id, limit_s=60)
    )

    embedder.may_answer.set()

    with anyio.fail_after(60):
        await draining
    assert await place.pending() == 0
    assert await work == 1


@pytest.mark.parametrize(
    "failure",
    [
        EmbedderUnavailableError("down"),
        EmbedderMismatchError("another"),
        InvalidVectorError("zero"),
        InvalidRequestError("no"),
    ],
)
async def test_draining_fails_for_no_failure_of_an_embedder(
    place: Workplace, embedder: ScriptedEmbedder, failure: EngramError
) -> None:
    await place.append(*numbered(3))
    embedder.failure = failure

    with anyio.fail_after(60):
        await place.indexer(embedder).drain(place.id, limit_s=60)

    assert await place.pending() == 3

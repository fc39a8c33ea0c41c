"""Messages that wait for vectors are neither lost nor forgotten, whatever becomes of who holds them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from engram.clock import RandomIds
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import InvalidRequestError
from engram.limits import INDEX_BATCH_MESSAGES
from engram.model.access import OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from engram.model.vectors import Indexing
from engram.service.work.background import Background
from engram.service.work.document_indexing import DocumentIndexing
from engram.service.work.indexing import LEASE, Indexer
from engram.storage.organization import OrganizationStore
from engram.storage.queue import RETRY_DELAY_MAX
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock

if TYPE_CHECKING:
    from engram.embedding.port import Vectors


class Workplace:
    """An organisation on a real store, and the worker of one process."""

    def __init__(self, store: SqliteStore, clock: FakeClock) -> None:
        self.clock = clock
        self.embedder = ChoosyEmbedder()
        self.indexer = Indexer(store, Tiers.of(deep=self.embedder), owner="this process")
        self.background = Background(
            store,
            indexer=self.indexer,
            documents=DocumentIndexing(store, self.indexer, owner="documents"),
            owner="jobs",
            due_s=0.05,
        )
        self._store = store

    async def begin(self) -> None:
        """Create the organisation."""
        draft = OrganizationDraft(name="local")
        organization = await self._store.control.create_organization(draft, actor="test")
        self.id: OrganizationId = organization.id
        self.organization: OrganizationStore = await self._store.organization(organization.id)

    async def append(self, *texts: str) -> None:
        """Store messages that wait for vectors."""
        await self.organization.append_messages(
            AppendRequest(messages=tuple(MessageDraft(role="user", content=t) for t in texts)),
            actor="test",
            quota=Quota(),
            indexing=Indexing(is_queued=True),
        )

    async def pending(self) -> int:
        return (await self.organization.counters()).pending

    async def wait_until_pending(self, count: int) -> None:
        """Return when so many messages wait."""
        with anyio.fail_after(60):
            while await self.pending() != count:
                pass


async def nothing_to_record() -> None:
    """No key was used."""


class ChoosyEmbedder(HashedEmbedder):
    """Refuses texts that say so."""

    is_choosy = True

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        if self.is_choosy and any("refused" in passage for passage in passages):
            raise InvalidRequestError("this text is refused")
        return await super().embed_passages(passages)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Workplace]:
    """Yield a workplace whose worker does nothing by itself."""
    clock = FakeClock()
    store = SqliteStore(tmp_path, clock=clock, ids=RandomIds())
    await store.open()
    workplace = Workplace(store, clock)
    await workplace.begin()
    yield workplace
    await store.close()


@pytest.fixture
async def running(place: Workplace) -> AsyncIterator[Workplace]:
    """Yield a workplace whose worker is at work."""
    worker = asyncio.create_task(place.background.run(nothing_to_record))
    yield place
    worker.cancel()
    with anyio.fail_after(60):
        await asyncio.wait([worker])


async def test_what_a_dead_process_held_is_taken_up_when_its_lease_has_ended(
    running: Workplace,
) -> None:
    await running.append("one", "two")
    await running.organization.claim_unembedded(
        owner="dead process", lease=LEASE, limit=1, characters_max=1000
    )
    running.indexer.enqueue(running.id)
    await running.wait_until_pending(1)

    running.clock.advance(LEASE)

    await running.wait_until_pending(0)


async def test_refused_messages_keep_no_others_from_their_vectors(running: Workplace) -> None:
    await running.append("an older message")
    await running.append(*["refused"] * INDEX_BATCH_MESSAGES)

    running.indexer.enqueue(running.id)

    await running.wait_until_pending(INDEX_BATCH_MESSAGES)


async def test_refused_messages_are_tried_again(running: Workplace) -> None:
    await running.append("refused", "not this one")
    running.indexer.enqueue(running.id)
    await running.wait_until_pending(1)

    running.embedder.is_choosy = False
    running.clock.advance(RETRY_DELAY_MAX)

    await running.wait_until_pending(0)


async def test_work_that_is_cut_off_holds_nothing_back(place: Workplace) -> None:
    await place.append(*[f"message {number}" for number in range(200)])

    for milliseconds in itertools.count(start=1):
        await place.indexer.drain(place.id, limit_s=milliseconds / 2000)
        assert not await place.organization.has_leased()
        if not await place.pending():
            break


async def test_work_that_is_cancelled_when_it_is_almost_done_is_cancelled(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.append("one")
    store_vectors = type(place.organization).store_vectors

    async def store_and_cancel(*given: Any, **named: Any) -> int:
        done = await store_vectors(*given, **named)
        asyncio.get_running_loop().call_soon(work.cancel)
        return done

    monkeypatch.setattr(type(place.organization), "store_vectors", store_and_cancel)
    work = asyncio.create_task(place.indexer.work(place.id))
    await asyncio.wait([work])

    assert work.cancelled()

"""Switching an organisation to another embedder, a bounded time per call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import AccessDeniedError, ConfigurationError, InvalidRequestError
from engram.model.access import OrganizationDraft, Principal
from engram.model.memory import MemoryDraft
from engram.model.value import replace
from engram.service import Service
from engram.service.work.reembedding import CONFIRM_FROM, Reembedding
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_service
from tests.fakes import FakeClock
from tests.service.embedders import NamedEmbedder


class House:
    """One store, served with one embedder after the other."""

    def __init__(self, store: SqliteStore, home: Path) -> None:
        self.store = store
        self._home = home

    def served(self, *names: str) -> Service:
        """Return a service with an embedder of this name, or with none."""
        deep = NamedEmbedder(names[0]) if names else None
        settings = Settings(home=self._home, embedder=NoEmbedder())
        return build_service(
            self.store, Tiers.of(deep=deep), settings, clock=FakeClock(), ids=RandomIds()
        )

    async def begin(self, memories: int) -> Principal:
        """Return an organisation with memories that have vectors of the first embedder."""
        service = self.served("maker/old")
        made, _ = await service.operator.create_organization(OrganizationDraft(name="one"))
        principal = await service.operator.act_for(made.id)
        drafts = [MemoryDraft(content=f"memory {number}") for number in range(memories)]
        for start in range(0, memories, 100):
            await service.memories.store_batch(principal, drafts[start : start + 100])
        while await service.indexer.work(made.id):
            pass
        return principal


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    store = SqliteStore(tmp_path / "store", clock=FakeClock(), ids=RandomIds())
    await store.open()
    yield House(store, tmp_path)
    await store.close()


async def test_a_dry_run_says_what_there_is_to_do_and_a_run_does_it(house: House) -> None:
    principal = await house.begin(12)
    reembedding = house.served("maker/new").reembedding

    planned = await reembedding.switch_embedder(principal, "maker/new", dry_run=True, confirm=False)
    done = await reembedding.switch_embedder(principal, "new", dry_run=False, confirm=False)
    again = await reembedding.switch_embedder(principal, "new", dry_run=True, confirm=False)

    assert (planned.status, planned.remaining) == ("planned", 12)
    assert (done.status, done.remaining, done.new_model) == ("done", 0, "maker/new")
    assert again.status == "done"


async def test_time_is_bounded_and_the_next_call_goes_on(house: House) -> None:
    principal = await house.begin(12)
    service = house.served("maker/new")

    hasty = Reembedding(
        house.store,
        Tiers.of(deep=NamedEmbedder("maker/new")),
        indexer=service.indexer,
        switch_s=0,
    )

    first = await hasty.switch_embedder(principal, "new", dry_run=False, confirm=False)
    second = await service.reembedding.switch_embedder(
        principal, "new", dry_run=False, confirm=False
    )

    assert (first.status, first.remaining) == ("running", 12)
    assert second.status == "done"


async def test_much_work_has_to_be_confirmed(house: House) -> None:
    principal = await house.begin(CONFIRM_FROM)
    reembedding = house.served("maker/new").reembedding

    with pytest.raises(InvalidRequestError) as caught:
        await reembedding.switch_embedder(principal, "new", dry_run=False, confirm=False)
    assert caught.value.field == "confirm"


async def test_a_model_that_the_operator_did_not_choose_is_refused(house: House) -> None:
    principal = await house.begin(1)

    with pytest.raises(InvalidRequestError) as caught:
        await house.served("maker/new").reembedding.switch_embedder(
            principal, "third", dry_run=True, confirm=True
        )
    assert caught.value.field == "new_model"
    with pytest.raises(ConfigurationError):
        await house.served().reembedding.switch_embedder(
            principal, "new", dry_run=True, confirm=True
        )


async def test_the_scope_admin_is_needed(house: House) -> None:
    principal = replace(await house.begin(1), scopes=frozenset({"write", "read"}))

    with pytest.raises(AccessDeniedError):
        await house.served("maker/new").reembedding.switch_embedder(
            principal, "new", dry_run=True, confirm=False
        )

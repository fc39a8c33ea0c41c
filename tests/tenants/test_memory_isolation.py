"""Memories of several tenants over two processes: no answer ever holds another tenant's row."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from engram.clock import RandomIds
from engram.embedding.choice import Hashed
from engram.errors import NotFoundError
from engram.model.access import OrganizationDraft, Principal
from engram.model.ids import MemoryId
from engram.model.memory import (
    Feedback,
    Memory,
    MemoryChange,
    MemoryDraft,
    MemoryQuery,
    NoteDraft,
    RelationDraft,
)
from engram.model.recall import MemoryFetch, RecallRequest, TimelineQuery
from engram.model.search import SearchRequest
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.tenants.conftest import HISTORIES
from tests.tenants.other_process import OtherProcess

pytestmark = promise("apart")

T = TypeVar("T")
TENANTS = 3
WORDS = ("tanuki", "river", "lantern", "ledger", "orchard")

some_tenant = st.integers(0, TENANTS - 1)
some_words = st.lists(st.sampled_from(WORDS), min_size=2, max_size=4).map(" ".join)
some_service = st.integers(0, 1)


@dataclass
class Tenant:
    """What the test believes about one tenant."""

    number: int
    secret: str
    memories: dict[MemoryId, str] = field(default_factory=dict[MemoryId, str])
    forgotten: set[MemoryId] = field(default_factory=set[MemoryId])
    relations: set[tuple[MemoryId, MemoryId]] = field(
        default_factory=set[tuple[MemoryId, MemoryId]]
    )

    @property
    def searched(self) -> dict[MemoryId, str]:
        return {one: text for one, text in self.memories.items() if one not in self.forgotten}

    def says(self, words: str) -> str:
        return f"{words} owned by tenant {self.number}"


@dataclass(frozen=True)
class Held:
    """A memory and whose it is."""

    tenant: Tenant
    id: MemoryId


@cache
def other_process() -> OtherProcess:
    """Return the second process; one serves every history."""
    return OtherProcess()


@pytest.fixture(scope="module", autouse=True)
def _end_of_the_other_process() -> Generator[None]:
    yield
    other_process().end()


class Tenants(RuleBasedStateMachine):
    """Random histories of memories; all tenants use the same words, project and tags."""

    held = Bundle[Held]("held")

    database_url: str | None = None
    """Where the histories happen, all in one database; without it each has files of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = FakeClock()
        self.services: list[Service] = []
        self.tenants: list[Tenant] = []

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.runner.run(wait())

    @initialize()
    def open(self) -> None:
        home = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        settings = Settings(home=home, embedder=Hashed(), database_url=self.database_url)
        here = open_service(settings, clock=self.clock, ids=RandomIds())
        self.services.append(self.run(self.stack.enter_async_context(here)))
        self.services.append(other_process().open(settings))
        self.stack.callback(other_process().close_store)
        for number in range(TENANTS):
            draft = OrganizationDraft(name=f"tenant {number}")
            _, key = self.run(self.services[0].operator.create_organization(draft))
            self.tenants.append(Tenant(number, key.secret))

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()

    def principal(self, tenant: Tenant, service: int) -> Principal:
        return self.run(self.services[service].access.authenticate(tenant.secret))

    def move_on(self) -> None:
        """Let time pass, so that versions follow each other."""
        self.clock.advance(timedelta(seconds=1))
        other_process().advance(timedelta(seconds=1))

    @rule(target=held, number=some_tenant, words=some_words, service=some_service)
    def store(self, number: int, words: str, service: int) -> Held:
        self.move_on()
        tenant = self.tenants[number]
        draft = MemoryDraft(content=tenant.says(words), tags=("shared",), project="shared")
        kept = self.run(
            self.services[service].memories.store(self.principal(tenant, service), draft)
        )
        tenant.memories[kept.memories[0].id] = draft.content
        return Held(tenant, kept.memories[0].id)

    @rule(number=some_tenant, words=some_words, service=some_service)
    def repeat_a_note(self, number: int, words: str, service: int) -> None:
        """Nobody's note is a duplicate of another tenant's, who may have said the same."""
        tenant = self.tenants[number]
        draft = NoteDraft(content=f"{words} that anybody may say", project="shared")
        kept = self.run(
            self.services[service].memories.store_note(self.principal(tenant, service), draft)
        )
        (stored,) = kept.memories
        assert stored.is_duplicate == (stored.id in tenant.memories)
        assert stored.is_duplicate == (draft.content in tenant.searched.values())
        tenant.memories[stored.id] = draft.content

    @rule(held=held, words=some_words, service=some_service)
    def correct(self, held: Held, words: str, service: int) -> None:
        if held.id in held.tenant.forgotten:
            return
        self.move_on()
        change = MemoryChange(content=held.tenant.says(words))
        after = self.run(
            self.services[service].memories.correct(
                self.principal(held.tenant, service), held.id, change
            )
        )
        held.tenant.memories[held.id] = after.content

    @rule(held=held, service=some_service)
    def forget(self, held: Held, service: int) -> None:
        self.move_on()
        self.run(
            self.services[service].memories.forget(self.principal(held.tenant, service), held.id)
        )
        held.tenant.forgotten.add(held.id)

    @rule(held=consumes(held), service=some_service)
    def purge(self, held: Held, service: int) -> None:
        tenant = held.tenant
        self.run(self.services[service].memories.purge(self.principal(tenant, service), held.id))
        del tenant.memories[held.id]
        tenant.forgotten.discard(held.id)
        tenant.relations = {each for each in tenant.relations if held.id not in each}

    @rule(one=held, other=held, service=some_service)
    def connect(self, one: Held, other: Held, service: int) -> None:
        if one.id == other.id:
            return
        principal = self.principal(one.tenant, service)
        draft = RelationDraft(source_id=one.id, target_id=other.id)
        connecting = self.services[service].memories.connect(principal, draft)
        if one.tenant is other.tenant:
            self.run(connecting)
            one.tenant.relations.add((one.id, other.id))
        else:
            with pytest.raises(NotFoundError):
                self.run(connecting)

    @rule(held=held, number=some_tenant, service=some_service)
    def reach_for_anothers(self, held: Held, number: int, service: int) -> None:
        tenant = self.tenants[number]
        if tenant is held.tenant:
            return
        principal = self.principal(tenant, service)
        use = self.services[service].memories
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: use.fetch(principal, MemoryFetch(id=held.id)),
            lambda: use.history(principal, held.id),
            lambda: use.relations(principal, held.id),
            lambda: use.correct(principal, held.id, MemoryChange(importance=0)),
            lambda: use.forget(principal, held.id),
            lambda: use.purge(principal, held.id, force=True),
            lambda: use.feedback(principal, Feedback(memory_ids=(held.id,))),
            lambda: self.services[service].memories.purge(principal, held.id),
        ]
        for attempt in attempts:
            with pytest.raises(NotFoundError):
                self.run(attempt())

    @rule(number=some_tenant, words=some_words, service=some_service)
    def find(self, number: int, words: str, service: int) -> None:
        tenant = self.tenants[number]
        principal = self.principal(tenant, service)
        request = SearchRequest(query=words, limit=50, token_budget=100_000)
        answer = self.run(self.services[service].search.search(principal, request))
        owners = [result.owner for result in answer.results]
        recalled = self.run(
            self.services[service].search.recall(principal, RecallRequest(query=words, top_k=50))
        )
        owners.extend(result.memory for result in recalled.results)
        for owner in owners:
            assert isinstance(owner, Memory)
            assert tenant.searched[owner.id] == owner.content
        holders = [one for one in tenant.searched.values() if set(words.split()) & set(one.split())]
        assert bool(answer.results) == bool(recalled.results) == bool(holders)

    @rule(number=some_tenant, service=some_service)
    def look_around(self, number: int, service: int) -> None:
        tenant = self.tenants[number]
        principal = self.principal(tenant, service)
        use = self.services[service].memories
        page = self.run(use.list(principal, MemoryQuery(limit=500)))
        assert {one.id: one.content for one in page.memories} == tenant.searched
        then = TimelineQuery(as_of=self.clock.now(), limit=500)
        assert {one.id for one in self.run(use.timeline(principal, then))} == set(tenant.searched)
        assert sum(one.count for one in self.run(use.projects(principal))) == page.total
        status = self.run(use.status(principal))
        assert (status.memories, status.forgotten) == (page.total, len(tenant.forgotten))
        assert status.relations == len(tenant.relations)

    @rule(held=held, service=some_service)
    def read(self, held: Held, service: int) -> None:
        principal = self.principal(held.tenant, service)
        use = self.services[service].memories
        history = self.run(use.history(principal, held.id))
        assert history.memory.content == held.tenant.memories[held.id]
        texts = [version.memory.content for version in history.versions]
        assert all(text.endswith(held.tenant.says("")) for text in texts)
        related = self.run(use.relations(principal, held.id, hops=2))
        assert {(one.source_id, one.target_id) for one in related} <= held.tenant.relations

    @rule(number=some_tenant)
    def read_audit(self, number: int) -> None:
        tenant = self.tenants[number]
        entries = self.run(self.services[0].account.audit(self.principal(tenant, 0), limit=500))
        foreign = {one for each in self.tenants if each is not tenant for one in each.memories}
        assert not any(memory_id in str(entries) for memory_id in foreign)

    @invariant()
    def counters_are_each_tenants_own(self) -> None:
        for tenant in self.tenants:
            status = self.run(self.services[0].account.status(self.principal(tenant, 0)))
            assert status.counters.memories == len(tenant.searched)
            assert status.counters.messages == len(tenant.searched)
            assert status.counters.conversations == 0


def test_no_answer_ever_holds_anothers_memory(database: str | None) -> None:
    class Here(Tenants):
        database_url = database

    run_state_machine_as_test(Here, settings=HISTORIES)

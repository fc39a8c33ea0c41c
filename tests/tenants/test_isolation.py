"""Several tenants, keys and processes on one store: no answer ever holds another tenant's row."""

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
from engram.errors import AccessDeniedError, NotFoundError, UnauthenticatedError
from engram.model.access import KeyDraft, KeyScope, OrganizationDraft, Principal
from engram.model.conversation import (
    AppendRequest,
    Conversation,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
    MessageQuery,
)
from engram.model.ids import ConversationId, KeyId
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
SERVICES = 2
WORDS = ("tanuki", "river", "lantern", "ledger", "orchard")

some_words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
some_service = st.integers(0, SERVICES - 1)


@dataclass
class Tenant:
    """What the test believes about one tenant."""

    number: int
    secret: str
    conversations: dict[ConversationId, list[str]] = field(
        default_factory=dict[ConversationId, list[str]]
    )

    @property
    def marker(self) -> str:
        return f"owned by tenant {self.number}"

    @property
    def messages(self) -> int:
        return sum(map(len, self.conversations.values()))


@dataclass(frozen=True)
class Held:
    """A conversation and whose it is."""

    tenant: Tenant
    id: ConversationId


@dataclass(frozen=True)
class Credential:
    """A key, and what it may do."""

    tenant: Tenant
    secret: str
    id: KeyId
    scopes: tuple[KeyScope, ...]


@cache
def other_process() -> OtherProcess:
    """Return the second process; one serves every history."""
    return OtherProcess()


@pytest.fixture(scope="module", autouse=True)
def _end_of_the_other_process() -> Generator[None]:
    yield
    other_process().end()


class Tenants(RuleBasedStateMachine):
    """Random histories of several tenants over the services of two processes on one store."""

    conversations = Bundle[Held]("conversations")
    keys = Bundle[Credential]("keys")

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

    @rule(target=conversations, number=st.integers(0, TENANTS - 1), service=some_service)
    def create(self, number: int, service: int) -> Held:
        tenant = self.tenants[number]
        draft = ConversationDraft(title=tenant.marker, tags=("shared",))
        made = self.run(
            self.services[service].conversations.create_conversation(
                self.principal(tenant, service), draft
            )
        )
        tenant.conversations[made] = []
        return Held(tenant, made)

    @rule(
        held=conversations, words=st.lists(some_words, min_size=1, max_size=7), service=some_service
    )
    def append(self, held: Held, words: list[str], service: int) -> None:
        contents = [f"{text} {held.tenant.marker}" for text in words]
        request = AppendRequest(
            conversation_id=held.id,
            messages=tuple(MessageDraft(role="user", content=text) for text in contents),
        )
        receipt = self.run(
            self.services[service].conversations.append_messages(
                self.principal(held.tenant, service), request
            )
        )
        known = held.tenant.conversations[held.id]
        assert receipt.first_sequence == len(known) + 1
        known.extend(contents)
        assert receipt.last_sequence == len(known)

    @rule(number=st.integers(0, TENANTS - 1), words=some_words, service=some_service)
    def search(self, number: int, words: str, service: int) -> None:
        tenant = self.tenants[number]
        request = SearchRequest(query=words, limit=50, token_budget=100_000, explain=True)
        answer = self.run(
            self.services[service].search.search(self.principal(tenant, service), request)
        )
        for result in answer.results:
            assert isinstance(result.owner, Conversation)
            assert result.owner.title == tenant.marker
            for found in result.messages:
                known = tenant.conversations[result.owner.id]
                assert known[found.message.sequence - 1] == found.message.content
        holders = [
            text
            for known in tenant.conversations.values()
            for text in known
            if set(words.split()) & set(text.split())
        ]
        assert bool(answer.results) == bool(holders)

    @rule(held=conversations, service=some_service)
    def read(self, held: Held, service: int) -> None:
        page = self.run(
            self.services[service].conversations.get_conversation(
                self.principal(held.tenant, service),
                MessageQuery(conversation_id=held.id, message_limit=500),
            )
        )
        known = held.tenant.conversations[held.id]
        assert [message.content for message in page.messages] == known

    @rule(number=st.integers(0, TENANTS - 1), service=some_service)
    def list_all(self, number: int, service: int) -> None:
        tenant = self.tenants[number]
        page = self.run(
            self.services[service].conversations.list_conversations(
                self.principal(tenant, service), ConversationQuery(limit=100, tags=("shared",))
            )
        )
        assert page.total == len(tenant.conversations)
        assert {conversation.id for conversation in page.conversations} == set(tenant.conversations)

    @rule(held=conversations, number=st.integers(0, TENANTS - 1), service=some_service)
    def reach_for_anothers(self, held: Held, number: int, service: int) -> None:
        tenant = self.tenants[number]
        if tenant is held.tenant:
            return
        principal = self.principal(tenant, service)
        use = self.services[service].conversations
        message = MessageDraft(role="user", content="trespass")
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: use.get_conversation(principal, MessageQuery(conversation_id=held.id)),
            lambda: use.delete_conversation(principal, held.id),
            lambda: use.append_messages(
                principal, AppendRequest(conversation_id=held.id, messages=(message,))
            ),
            lambda: self.services[service].search.search(
                principal, SearchRequest(query="tanuki", conversation_id=held.id)
            ),
        ]
        for attempt in attempts:
            with pytest.raises(NotFoundError):
                self.run(attempt())

    @rule(held=consumes(conversations), service=some_service)
    def delete(self, held: Held, service: int) -> None:
        receipt = self.run(
            self.services[service].conversations.delete_conversation(
                self.principal(held.tenant, service), held.id
            )
        )
        assert receipt.messages == len(held.tenant.conversations.pop(held.id))

    @rule(
        target=keys,
        number=st.integers(0, TENANTS - 1),
        scopes=st.sampled_from([("read",), ("search",), ("write", "delete")]),
    )
    def add_key(self, number: int, scopes: tuple[KeyScope, ...]) -> Credential:
        tenant = self.tenants[number]
        new = self.run(
            self.services[0].access.create_key(
                self.principal(tenant, 0), KeyDraft(name="extra", scopes=scopes)
            )
        )
        return Credential(tenant, new.secret, new.key.id, scopes)

    @rule(credential=keys, service=some_service)
    def use_key(self, credential: Credential, service: int) -> None:
        principal = self.run(self.services[service].access.authenticate(credential.secret))
        reading = self.services[service].account.status(principal)
        if "read" in credential.scopes:
            assert self.run(reading).counters.messages == credential.tenant.messages
        else:
            with pytest.raises(AccessDeniedError):
                self.run(reading)

    @rule(credential=consumes(keys), service=some_service)
    def revoke_key(self, credential: Credential, service: int) -> None:
        owner = self.principal(credential.tenant, service)
        self.run(self.services[service].access.revoke_key(owner, credential.id))
        self.clock.advance(timedelta(seconds=1))
        other_process().advance(timedelta(seconds=1))
        for each in self.services:
            with pytest.raises(UnauthenticatedError):
                self.run(each.access.authenticate(credential.secret))

    @rule(number=st.integers(0, TENANTS - 1))
    def read_audit(self, number: int) -> None:
        tenant = self.tenants[number]
        entries = self.run(self.services[0].account.audit(self.principal(tenant, 0), limit=500))
        foreign = {
            conversation
            for other in self.tenants
            if other is not tenant
            for conversation in other.conversations
        }
        assert not foreign & {entry.subject for entry in entries}

    @invariant()
    def counters_are_each_tenants_own(self) -> None:
        for tenant in self.tenants:
            status = self.run(self.services[0].account.status(self.principal(tenant, 0)))
            assert status.counters.messages == tenant.messages
            assert status.counters.conversations == len(tenant.conversations)


def test_no_answer_ever_holds_anothers_conversation(database: str | None) -> None:
    class Here(Tenants):
        database_url = database

    run_state_machine_as_test(Here, settings=HISTORIES)

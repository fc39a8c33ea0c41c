"""Any history of messages, their vectors and their deletion over two processes, against a simple model."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from engram.clock import RandomIds
from engram.model.access import OrganizationDraft
from engram.model.ids import ConversationId, MessageKey
from engram.model.row_keys import message_key
from engram.model.vectors import Embedded, QueryVector, Tier, Unembedded
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, begin, findings
from tests.storage.embedded import DEEP, OTHER, QUICK, append_meant, passages_of, vector_of
from tests.storage.finding import find_candidates

pytestmark = promise("one-truth")

T = TypeVar("T")
LEASE = timedelta(minutes=1)
STORES = 2
IDENTITIES: dict[Tier, str] = {"instant": QUICK, "deep": DEEP}

some_store = st.integers(0, STORES - 1)
some_text = st.lists(st.sampled_from(["red", "green", "apple", "pear"]), max_size=8).map(" ".join)
some_tier = st.sampled_from([None, "instant", "deep"])


@dataclass
class Said:
    """What the test believes about one message."""

    text: str
    conversation: ConversationId
    stored_at: datetime
    number: int
    """Its place among those that wait: the newest are claimed first."""
    vectors: Tier | None = None
    is_waiting: bool = False
    lease: tuple[str, datetime] | None = None
    available_at: datetime | None = None

    def count_vectors(self) -> int:
        return 0 if self.vectors is None else len(passages_of(self.text, DEEP))


@dataclass(frozen=True)
class Batch:
    """Messages that one owner has claimed."""

    owner: str
    messages: tuple[Unembedded, ...]


@dataclass
class Model:
    """Everything that is stored."""

    messages: dict[MessageKey, Said] = field(default_factory=dict[MessageKey, Said])
    conversations: list[ConversationId] = field(default_factory=list[ConversationId])
    """Deleted ones too: their numbers are not given again."""
    is_adopted: bool = False

    def key(self, conversation_id: ConversationId, sequence: int) -> MessageKey:
        number = self.conversations.index(conversation_id) + 1
        return MessageKey(message_key(number, sequence))

    def claimable(self, now: datetime) -> list[MessageKey]:
        """Return the keys of the messages that can be claimed, the newest first."""
        free = [
            (said.number, key)
            for key, said in self.messages.items()
            if said.is_waiting
            and (said.lease is None or said.lease[1] <= now)
            and (said.available_at is None or said.available_at <= now)
        ]
        return [key for _, key in sorted(free, reverse=True)]

    def held(self, batch: Batch) -> list[MessageKey]:
        """Return which messages of a batch are still its owner's."""
        mine = [self.messages.get(message.key) for message in batch.messages]
        return [
            message.key
            for message, said in zip(batch.messages, mine, strict=True)
            if said is not None and said.lease is not None and said.lease[0] == batch.owner
        ]


class Vectors(RuleBasedStateMachine):
    """Random histories of one organisation over two stores on one directory."""

    conversations = Bundle[ConversationId]("conversations")
    batches = Bundle[Batch]("batches")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = FakeClock()
        self.stores: list[OrganizationStore] = []
        self.model = Model()
        self.count = 0

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.runner.run(wait())

    @initialize()
    def open(self) -> None:
        home = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        opened = [SqliteStore(home, clock=self.clock, ids=RandomIds()) for _ in range(STORES)]
        for each in opened:
            self.run(each.open())
            self.stack.push_async_callback(each.close)
        draft = OrganizationDraft(name="Acme")
        made = self.run(opened[0].control.create_organization(draft, actor=ACTOR))
        self.stores = [self.run(each.organization(made.id)) for each in opened]

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()

    def next_number(self) -> int:
        self.count += 1
        return self.count

    def adopt(self) -> None:
        """Let the messages without deep vectors wait, the oldest before the others."""
        if self.model.is_adopted:
            return
        self.model.is_adopted = True
        oldest_first = sorted(
            self.model.messages.items(), key=lambda one: (one[1].stored_at, one[0])
        )
        for _, said in oldest_first:
            if said.vectors != "deep" and not said.is_waiting:
                said.is_waiting, said.number = True, self.next_number()

    @rule(target=conversations, store=some_store)
    def create(self, store: int) -> ConversationId:
        conversation_id = self.run(begin(self.stores[store]))
        self.model.conversations.append(conversation_id)
        return conversation_id

    @rule(
        to=conversations,
        texts=st.lists(some_text, min_size=1, max_size=4),
        tier=some_tier,
        store=some_store,
    )
    def append(self, to: ConversationId, texts: list[str], tier: Tier | None, store: int) -> None:
        known = sum(said.conversation == to for said in self.model.messages.values())
        identity = QUICK if tier is None else IDENTITIES[tier]
        self.run(append_meant(self.stores[store], *texts, to=to, tier=tier, identity=identity))
        if tier == "deep":
            self.adopt()
        waits = tier == "instant" or (tier is None and self.model.is_adopted)
        for sequence, text in enumerate(texts, start=known + 1):
            self.model.messages[self.model.key(to, sequence)] = Said(
                text, to, self.clock.now(), self.next_number(), vectors=tier, is_waiting=waits
            )

    @rule(store=some_store)
    def adopt_embedder(self, store: int) -> None:
        assert self.run(self.stores[store].adopt_embedder(DEEP))
        self.adopt()
        assert not self.run(self.stores[store].adopt_embedder(OTHER))

    @rule(
        target=batches,
        store=some_store,
        owner=st.sampled_from(["one", "two"]),
        limit=st.integers(1, 4),
    )
    def claim(self, store: int, owner: str, limit: int) -> Batch:
        expected = self.model.claimable(self.clock.now())[:limit]
        claimed = self.run(
            self.stores[store].claim_unembedded(
                owner=owner, lease=LEASE, limit=limit, characters_max=10_000
            )
        )
        assert [message.key for message in claimed] == expected
        for message in claimed:
            said = self.model.messages[message.key]
            assert message.content == said.text
            said.lease = owner, self.clock.now() + LEASE
        return Batch(owner, claimed)

    @rule(batch=consumes(batches), store=some_store, identity=st.sampled_from([DEEP, OTHER]))
    def store_vectors(self, batch: Batch, store: int, identity: str) -> None:
        embedded = [
            Embedded(key=message.key, passages=passages_of(message.content, identity))
            for message in batch.messages
        ]
        stored = self.run(self.stores[store].store_vectors(identity, embedded, owner=batch.owner))
        is_current = self.model.is_adopted and identity == DEEP
        held = self.model.held(batch) if is_current else []
        assert stored == len(held)
        for key in held:
            said = self.model.messages[key]
            said.vectors, said.is_waiting, said.lease = "deep", False, None

    @rule(batch=batches, store=some_store, minutes=st.integers(0, 5))
    def postpone(self, batch: Batch, store: int, minutes: int) -> None:
        delay = timedelta(minutes=minutes)
        keys = [message.key for message in batch.messages]
        self.run(self.stores[store].postpone_unembedded(keys, owner=batch.owner, delay=delay))
        for key in self.model.held(batch):
            said = self.model.messages[key]
            said.lease, said.available_at = None, self.clock.now() + delay

    @rule(batch=batches, store=some_store)
    def renew(self, batch: Batch, store: int) -> None:
        keys = [message.key for message in batch.messages]
        self.run(self.stores[store].renew_unembedded(keys, owner=batch.owner, lease=LEASE))
        for key in self.model.held(batch):
            self.model.messages[key].lease = batch.owner, self.clock.now() + LEASE

    @rule(conversation_id=consumes(conversations), store=some_store)
    def delete(self, conversation_id: ConversationId, store: int) -> None:
        receipt = self.run(self.stores[store].delete_conversation(conversation_id, actor=ACTOR))
        gone = {
            key: said
            for key, said in self.model.messages.items()
            if said.conversation == conversation_id
        }
        assert receipt.messages == len(gone)
        assert receipt.vectors == sum(said.count_vectors() for said in gone.values())
        for key in gone:
            del self.model.messages[key]

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule(store=some_store, text=some_text)
    def search(self, store: int, text: str) -> None:
        vectors = [
            QueryVector(tier=tier, identity=identity, vector=vector_of(text, identity))
            for tier, identity in IDENTITIES.items()
        ]
        found = self.run(find_candidates(self.stores[store], [], vectors=vectors, limit=1_000))
        tiers = {
            key: "deep" if is_deep else "instant"
            for key, is_deep in zip(found.keys.tolist(), found.is_deep.tolist(), strict=True)
        }
        assert tiers == {
            key: said.vectors
            for key, said in self.model.messages.items()
            if said.vectors is not None
        }
        assert found.mismatched == ()

    @invariant()
    def counters_are_right_everywhere(self) -> None:
        messages = self.model.messages.values()
        for store in self.stores:
            counters = self.run(store.counters())
            assert counters.messages == len(self.model.messages)
            assert counters.vectors == sum(said.count_vectors() for said in messages)
            assert counters.pending == sum(said.is_waiting for said in messages)

    @rule(store=some_store)
    def verify(self, store: int) -> None:
        assert self.run(findings(self.stores[store])) == []


Vectors.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestVectors = Vectors.TestCase

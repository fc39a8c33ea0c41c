"""Re-embedding as a use case: processes with old and new embedders on one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from engram import limits
from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import (
    ConfigurationError,
    ConflictError,
    EmbedderUnavailableError,
    InvalidRequestError,
    NotFoundError,
    StoreCorruptError,
)
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from engram.model.search import SearchAnswer, SearchRequest
from engram.model.status import Coverage, Finding
from engram.service import Service
from engram.service.work.reembedding import Reembedded
from engram.settings import Settings
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.embedders import REFUSED, NamedEmbedder, TokenNamedEmbedder
from tests.storage.drafts import damage, opened

MESSAGES = 30
SENTENCES = (
    "I would like to repaint the hallway and need advice on colours for a narrow room without any"
    " windows at all. By the way, I just got a kitten called Biscuit from the shelter, and he likes"
    " paint. Which undercoat would you take for old plaster that has been papered over several times"
    " and has cracks along the whole ceiling?"
)
LONG = " ".join(f"word{number}" for number in range(50))


class Installation:
    """Processes with embedders of their own, on one store with one organisation."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.id = OrganizationId("")

    async def process(self, tiers: Tiers) -> Process:
        """Start another process."""
        clock, ids = FakeClock(), RandomIds()
        store = SqliteStore(self._directory / "store", clock=clock, ids=ids)
        await store.open()
        self._stack.push_async_callback(store.close)
        settings = Settings(home=self._directory, embedder=NoEmbedder())
        service = build_service(store, tiers, settings, clock=clock, ids=ids)
        if not self.id:
            made, _ = await service.operator.create_organization(OrganizationDraft(name="Acme"))
            self.id = made.id
        return Process(store, service, await service.operator.act_for(self.id))


class Process:
    """A service and what it is asked here."""

    def __init__(self, store: SqliteStore, service: Service, me: Principal) -> None:
        self.store = store
        self.service = service
        self.me = me

    async def append(self, *texts: str) -> None:
        messages = tuple(MessageDraft(role="user", content=text) for text in texts)
        request = AppendRequest(messages=messages)
        await self.service.conversations.append_messages(self.me, request)

    async def index(self) -> None:
        while await self.service.indexer.work(self.me.organization_id):
            pass

    async def reembed(self) -> Reembedded:
        return await self.service.reembedding.reembed(self.me.organization_id)

    async def search(self, query: str) -> SearchAnswer:
        request = SearchRequest(query=query, explain=True)
        return await self.service.search.search(self.me, request)

    async def tier_of_best(self, query: str) -> str | None:
        """Return whose vectors the best message was found with."""
        breakdown = (await self.search(query)).results[0].messages[0].breakdown
        assert breakdown is not None
        return breakdown.vector_tier

    async def coverage(self) -> Coverage:
        return (await self.service.operator.coverage())[0]

    async def findings(self) -> list[Finding]:
        organization = await self.store.organization(self.me.organization_id)
        return [finding async for finding in organization.verify()]


@pytest.fixture
async def installation(tmp_path: Path) -> AsyncIterator[Installation]:
    """Yield an empty store for processes to come."""
    async with AsyncExitStack() as stack:
        yield Installation(tmp_path, stack)


@pytest.fixture
async def old(installation: Installation) -> Process:
    """Return a process whose embedder has made the vectors of some messages."""
    process = await installation.process(Tiers.of(deep=NamedEmbedder("old", dimensions=32)))
    await process.append(*[f"letter {number}" for number in range(MESSAGES - 1)], LONG)
    await process.index()
    return process


async def test_each_process_finds_by_meaning_while_its_embedder_is_the_one(
    installation: Installation, old: Process
) -> None:
    new = await installation.process(Tiers.of(deep=NamedEmbedder("new")))
    assert await old.tier_of_best("letter 7") == "deep"
    assert "embedder_changed" in (await new.search("letter 7")).degraded

    done = await new.reembed()

    assert (done.embedded, done.refused, done.pending) == (MESSAGES, 0, 0)
    assert done.vectors_removed >= MESSAGES
    assert await new.tier_of_best("letter 7") == "deep"
    assert (await new.search("letter 7")).degraded == ()
    assert "embedder_changed" in (await old.search("letter 7")).degraded
    assert await old.findings() == []


async def test_messages_of_an_earlier_version_get_vectors_of_their_sentences(
    installation: Installation, tmp_path: Path
) -> None:
    embedder = NamedEmbedder("wide", max_tokens=400)
    process = await installation.process(Tiers.of(deep=embedder))
    await process.append("letter 1", SENTENCES, "letter 2")
    await process.index()
    organization = await process.store.organization(process.me.organization_id)
    made = stored_ranges(tmp_path, organization)
    # Only the sentences of the second message are so: the others are short, and it is longer.
    damage(
        tmp_path,
        organization,
        "DELETE FROM vector WHERE start_character > 0 OR end_character BETWEEN 20 AND 240",
    )
    damage(tmp_path, organization, "UPDATE counters SET vectors = 3")
    assert (await process.search("kitten Biscuit")).degraded == ()
    assert await process.findings() == []

    done, again = await process.reembed(), await process.reembed()

    assert (done.embedded, again.embedded) == (1, 0)
    assert stored_ranges(tmp_path, organization) == made
    assert await process.findings() == []


def stored_ranges(folder: Path, organization: OrganizationStore) -> list[tuple[int, int, bytes]]:
    """Return the ranges and contents of the vectors of the second message."""
    with opened(folder, organization) as connection:
        rows = connection.execute(
            "SELECT start_character, end_character, content FROM vector"
            " WHERE key % 8 = 2 ORDER BY start_character, end_character"
        ).fetchall()
    assert len(rows) == 4
    return rows


def stored_tokens(folder: Path, organization: OrganizationStore) -> list[tuple[int, bytes]]:
    """Return the last digits of the keys that have token vectors, and these."""
    with opened(folder, organization) as connection:
        return connection.execute(
            "SELECT key % 8, tokens FROM vector WHERE tokens IS NOT NULL ORDER BY key"
        ).fetchall()


async def test_messages_embedded_without_tokens_get_their_vectors_once_that_is_switched_on(
    installation: Installation, tmp_path: Path
) -> None:
    off = await installation.process(Tiers.of(deep=NamedEmbedder("wide", max_tokens=400)))
    await off.append("letter 1", SENTENCES, "letter 2")
    await off.index()
    organization = await off.store.organization(off.me.organization_id)
    assert stored_tokens(tmp_path, organization) == []

    embedder = TokenNamedEmbedder("wide", max_tokens=400)
    on = await installation.process(Tiers.of(deep=embedder))
    done, again = await on.reembed(), await on.reembed()

    assert (done.embedded, again.embedded, embedder.embedded) == (3, 0, 3)
    added = stored_tokens(tmp_path, organization)
    assert [digit for digit, _ in added] == [1, 2, 3]
    await on.append("letter 1")
    await on.index()
    assert stored_tokens(tmp_path, organization)[-1][1] == added[0][1]
    assert await on.findings() == []


async def test_words_that_match_one_by_one_are_part_of_a_score(installation: Installation) -> None:
    embedder = TokenNamedEmbedder("wide", max_tokens=400)
    process = await installation.process(Tiers.of(deep=embedder))
    await process.append("the letter of Anna", "a parcel for Paul")
    await process.index()

    (result,) = (await process.search("letter Anna")).results

    breakdown = result.messages[0].breakdown
    assert breakdown is not None
    assert breakdown.raw["token_vectors"] > 0.8


async def test_with_the_present_embedder_there_is_nothing_to_do(old: Process) -> None:
    done = await old.reembed()

    assert (done.embedded, done.dropped, done.vectors_removed) == (0, None, 0)


async def test_with_the_present_embedder_waiting_messages_get_their_vectors(old: Process) -> None:
    await old.append("one more")

    done = await old.reembed()

    assert (done.embedded, done.pending) == (1, 0)


async def test_where_nothing_was_embedded_before_it_is_done_now(
    installation: Installation,
) -> None:
    without = await installation.process(Tiers())
    await without.append("apple", "pear")
    first = await installation.process(Tiers.of(deep=NamedEmbedder("first")))

    done = await first.reembed()

    assert done.embedded == 2
    assert (await first.coverage()).messages_deep == 2
    assert await first.tier_of_best("pear") == "deep"


async def test_when_the_embedder_fails_what_was_made_is_kept(
    installation: Installation, old: Process
) -> None:
    embedder = NamedEmbedder("new")
    embedder.patience = 10
    new = await installation.process(Tiers.of(deep=embedder))
    with pytest.raises(EmbedderUnavailableError):
        await new.reembed()
    assert await old.tier_of_best("letter 7") == "deep"
    made = embedder.embedded
    embedder.patience = None

    done = await new.reembed()

    assert 0 < made < MESSAGES
    assert embedder.embedded == MESSAGES + 2  # the long message has three passages
    assert done.embedded < MESSAGES
    assert (await new.coverage()).messages_deep == MESSAGES
    assert await new.findings() == []


async def test_what_arrives_meanwhile_has_new_vectors_too(
    installation: Installation, old: Process
) -> None:
    embedder = NamedEmbedder("new")
    embedder.meanwhile = lambda: old.append("plum", "fig")
    new = await installation.process(Tiers.of(deep=embedder))

    done = await new.reembed()

    assert done.embedded == MESSAGES + 2
    assert (await new.coverage()).messages_deep == MESSAGES + 2
    assert await new.findings() == []


async def test_a_server_with_the_new_embedder_works_on_beside_it(
    installation: Installation, old: Process
) -> None:
    embedder = NamedEmbedder("new")
    tiers = Tiers.of(deep=NamedEmbedder("new"), instant=NamedEmbedder("quick", dimensions=16))
    server = await installation.process(tiers)
    await server.append("plum")
    await server.index()

    async def append_and_search() -> None:
        await server.append("fig")
        await server.index()
        assert "embedder_changed" in (await server.search("fig")).degraded

    embedder.meanwhile = append_and_search
    new = await installation.process(Tiers.of(deep=embedder))

    await new.reembed()

    assert (await server.coverage()).messages_deep == MESSAGES + 2
    assert (await server.search("fig")).degraded == ()
    assert await server.tier_of_best("fig") == "deep"
    await server.append("cherry")
    assert await server.tier_of_best("cherry") == "instant"
    await server.index()
    assert await server.tier_of_best("cherry") == "deep"
    assert await server.findings() == []


async def test_another_embedder_begun_meanwhile_ends_it(
    installation: Installation, old: Process
) -> None:
    third = await installation.process(Tiers.of(deep=NamedEmbedder("third", dimensions=16)))
    embedder = NamedEmbedder("new")
    organization = await third.store.organization(installation.id)
    identity = (await NamedEmbedder("third", dimensions=16).identify()).as_text()

    async def begin_third() -> None:
        await organization.begin_reembedding(identity)

    embedder.meanwhile = begin_third
    new = await installation.process(Tiers.of(deep=embedder))
    with pytest.raises(ConflictError):
        await new.reembed()

    assert (await third.reembed()).embedded == MESSAGES
    assert await old.findings() == []


async def test_half_built_vectors_of_another_embedder_are_given_up(
    installation: Installation, old: Process
) -> None:
    embedder = NamedEmbedder("new")
    embedder.patience = 10
    new = await installation.process(Tiers.of(deep=embedder))
    with pytest.raises(EmbedderUnavailableError):
        await new.reembed()

    done = await old.reembed()

    assert done.dropped == embedder.identity.as_text()
    assert (done.embedded, done.pending) == (0, 0)
    assert done.vectors_removed > 0
    assert await old.findings() == []


async def test_messages_that_get_no_vector_wait(installation: Installation, old: Process) -> None:
    await old.append(f"the {REFUSED} word", "plum")
    new = await installation.process(Tiers.of(deep=NamedEmbedder("new")))

    done = await new.reembed()

    assert (done.embedded, done.refused, done.pending) == (MESSAGES + 1, 1, 1)
    assert await new.findings() == []


async def test_an_embedder_that_refuses_everything_ends_it(
    installation: Installation, old: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REEMBED_REFUSALS_MAX", 2)
    await old.append(*[f"{REFUSED} {number}" for number in range(3)])
    new = await installation.process(Tiers.of(deep=NamedEmbedder("new")))

    with pytest.raises(InvalidRequestError):
        await new.reembed()

    assert await old.tier_of_best("letter 7") == "deep"


async def test_messages_that_cannot_be_read_wait_too(
    installation: Installation, old: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    organization = await old.store.organization(installation.id)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content = 'x' WHERE characters > 100")
    new = await installation.process(Tiers.of(deep=NamedEmbedder("new")))

    done = await new.reembed()

    assert (done.embedded, done.refused, done.pending) == (MESSAGES - 1, 1, 1)
    assert not {finding.check for finding in await new.findings()} & {"vectors", "counters"}
    monkeypatch.setattr(limits, "REEMBED_REFUSALS_MAX", 0)
    with pytest.raises(StoreCorruptError):
        await (await installation.process(Tiers.of(deep=NamedEmbedder("third")))).reembed()


@promise("processes")
async def test_processes_share_the_work(installation: Installation, old: Process) -> None:
    await old.append(*[f"parcel {number}" for number in range(200)])
    await old.append(*[f"postcard {number}" for number in range(200)])
    embedders = [NamedEmbedder("new") for _ in range(3)]
    processes = [await installation.process(Tiers.of(deep=embedder)) for embedder in embedders]

    done = await asyncio.gather(*[process.reembed() for process in processes])

    assert sum(one.embedded for one in done) == MESSAGES + 400
    assert (await old.coverage()).messages_deep == MESSAGES + 400
    assert await old.findings() == []


async def test_a_plan_tells_what_there_is_to_do_and_does_nothing(
    installation: Installation, old: Process
) -> None:
    embedder = NamedEmbedder("new")
    new = await installation.process(Tiers.of(deep=embedder))

    (plan,) = await new.service.reembedding.plan()
    (same,) = await old.service.reembedding.plan(installation.id)

    assert (plan.organization.id, plan.target) == (installation.id, embedder.identity)
    assert plan.stored == same.stored == await stored_identities(old)
    assert (plan.work.messages, plan.work.unmoved) == (MESSAGES, MESSAGES)
    assert plan.work.passages == MESSAGES - 1 + -(-len(LONG) // 80)
    assert same.work.unmoved == 0
    assert embedder.embedded == 0


async def test_an_unknown_organisation_is_told(old: Process) -> None:
    with pytest.raises(NotFoundError):
        await old.service.reembedding.plan(OrganizationId("org_none"))


async def test_without_an_embedder_there_is_nothing_to_embed_with(
    installation: Installation,
) -> None:
    none = await installation.process(Tiers())

    with pytest.raises(ConfigurationError):
        await none.reembed()


async def stored_identities(process: Process) -> object:
    organization = await process.store.organization(process.me.organization_id)
    return await organization.identities()

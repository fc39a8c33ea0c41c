"""The same things stored in SQLite and in PostgreSQL: every search finds the same in both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, get_args

import pytest

from engram.embedding.choice import NoEmbedder
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft, Principal
from engram.model.search import (
    FoundMessage,
    ProfileName,
    ScoreBreakdown,
    SearchAnswer,
    SearchRequest,
    SearchResult,
)
from engram.service import Service
from engram.settings import Settings
from engram.storage.postgres.store import PostgresStore
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store
from engram.wiring import build_service
from tests.fakes import SOME_DAY, FakeClock, SequentialIds
from tests.meaning.hashing import QuickEmbedder
from tests.postgres.corpus import AGENTS, PROJECTS, TAGS, questions, store_corpus
from tests.promises import promise

pytestmark = promise("findable", "reproducible")

QUESTIONS = 60
PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)

FILTERS: tuple[dict[str, Any], ...] = (
    {"tags": TAGS[:1]},
    {"agent_id": AGENTS[0]},
    {"project": PROJECTS[1]},
    {"role": "assistant"},
    {"since": SOME_DAY + timedelta(hours=3), "before": SOME_DAY + timedelta(hours=9)},
    {"project": PROJECTS[0], "kinds": ("note",)},
)


@dataclass(frozen=True, slots=True)
class House:
    """A service, and who uses it."""

    service: Service
    principal: Principal

    async def search(self, request: SearchRequest) -> SearchAnswer:
        return await self.service.search.search(self.principal, request)


class RecordIds(SequentialIds):
    """Identifiers that do not depend on the jobs, of which each database has its own."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = SequentialIds()

    def new(self, prefix: str) -> str:
        return self._jobs.new(prefix) if prefix == "job_" else super().new(prefix)


async def test_both_databases_answer_every_search_alike(tmp_path: Path, database_url: str) -> None:
    async with AsyncExitStack() as stack:
        clocks, ids = [FakeClock(), FakeClock()], [RecordIds(), RecordIds()]
        files = SqliteStore(tmp_path, clock=clocks[0], ids=ids[0])
        database = PostgresStore(database_url, clock=clocks[1], ids=ids[1])
        here = await stack.enter_async_context(furnished(files, clocks[0], ids[0]))
        there = await stack.enter_async_context(furnished(database, clocks[1], ids[1]))

        found, raised, tiers = 0, 0, set[str | None]()
        for request in requests():
            expected, answer = await here.search(request), await there.search(request)

            assert identities(answer) == identities(expected), request
            assert measures(answer) == pytest.approx(measures(expected), abs=1e-9), request
            found += len(expected.results)
            raised += sum(one.time_bonus > 0 for one in breakdowns(expected))
            tiers |= {one.vector_tier for one in breakdowns(expected)}

    assert found > 10 * QUESTIONS
    assert raised > QUESTIONS
    assert {"instant", "deep"} <= tiers


def requests() -> Iterator[SearchRequest]:
    """Yield every question with all profiles, with and without a filter, and once with a time."""
    filters = cycle(FILTERS)
    for question in questions(QUESTIONS):
        for profile in PROFILES:
            for chosen in (dict[str, Any](), next(filters)):
                yield SearchRequest(
                    query=question, profile=profile, limit=10, explain=True, **chosen
                )
        yield SearchRequest(
            query=f"{question} 3 hours ago",
            asked_at=SOME_DAY + timedelta(hours=8),
            limit=10,
            explain=True,
        )


@asynccontextmanager
async def furnished(store: Store, clock: FakeClock, ids: SequentialIds) -> AsyncGenerator[House]:
    """Open a store and keep the corpus in it."""
    await store.open()
    tiers = Tiers.of(deep=HashedEmbedder(), instant=QuickEmbedder())
    settings = Settings(home=Path(), embedder=NoEmbedder())
    service = build_service(store, tiers, settings, clock=clock, ids=ids)
    try:
        made, _ = await service.operator.create_organization(OrganizationDraft(name="one"))
        principal = await service.operator.act_for(made.id)
        await store_corpus(service, principal, clock)
        yield House(service, principal)
    finally:
        await store.close()


def identities(answer: SearchAnswer) -> tuple[object, ...]:
    """Return all of an answer but its numbers: which messages, in which order."""
    results = [(*identity(result), [*map(said, result.messages)]) for result in answer.results]
    counts = answer.total_candidates, answer.tokens, answer.truncated, answer.pending
    return results, counts, answer.degraded, answer.note


def identity(result: SearchResult) -> tuple[object, ...]:
    window = result.start_sequence, result.end_sequence
    return result.kind, result.owner, window, result.chunk_text, result.is_handle


def said(found: FoundMessage) -> tuple[object, ...]:
    return found.message, found.breakdown and found.breakdown.vector_tier


def measures(answer: SearchAnswer) -> list[float]:
    """Return every number of an answer that was measured."""
    scores = [one.score for one in answer.results]
    scores += [found.score for one in answer.results for found in one.messages]
    for one in breakdowns(answer):
        scores += [value for legs in (one.raw, one.legs, one.weights) for value in legs.values()]
        scores += [one.fused, one.conversation_best, one.length_charge, one.order]
        scores += [one.importance_factor, one.usefulness_factor, one.time_bonus]
    return scores


def breakdowns(answer: SearchAnswer) -> Iterator[ScoreBreakdown]:
    """Yield how each score of an answer came about."""
    for result in answer.results:
        for one in (result.breakdown, *(found.breakdown for found in result.messages)):
            if one is not None:
                yield one

"""Fetched context holds what answers a question in other words, and nothing where nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.clock import RandomIds
from engram.embedding.choice import LocalModel
from engram.model.access import OrganizationDraft
from engram.model.memory import NoteDraft
from engram.model.recall import ContextRequest
from engram.service.work.indexing import Indexer
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_embedders, build_service
from tests.fakes import FakeClock

NOTES = (
    "Postgres connection pool size is 40; raising it above 60 exhausted memory in June.",
    "The user prefers dark mode and a compact layout in every editor.",
    "Anna is allergic to peanuts and never eats at the Thai place.",
    "CI takes nine minutes; the slow part is the browser tests.",
    "Our staging database is refreshed from production every Sunday night.",
    "The logo must keep a clear space of 24 pixels on every side.",
)
QUESTIONS = {
    "how large is the db pool?": NOTES[0],
    "which theme does the user like?": NOTES[1],
    "can Anna have satay sauce?": NOTES[2],
    "why is the pipeline slow?": NOTES[3],
    "is staging data fresh?": NOTES[4],
    "spacing around the brand mark": NOTES[5],
}
FOREIGN = ("what is the capital of France?", "how do I bake bread?", "favourite football team")


async def fetch_all(directory: Path, queries: list[str], *, is_indexed: bool) -> list[list[str]]:
    """Return the texts that each query brings, best first."""
    settings = Settings(home=directory, embedder=LocalModel())
    clock, ids = FakeClock(), RandomIds()
    store = SqliteStore(directory, clock=clock, ids=ids)
    await store.open()
    tiers = build_embedders(settings, clock=clock)
    try:
        service = build_service(store, tiers, settings, clock=clock, ids=ids)
        made, _ = await service.operator.create_organization(OrganizationDraft(name="Acme"))
        principal = await service.operator.act_for(made.id)
        await service.memories.store_notes(principal, [NoteDraft(content=text) for text in NOTES])
        if is_indexed:
            indexer = Indexer(store, tiers, owner="job_test")
            while await indexer.work(made.id):
                pass
        contexts = [
            await service.search.fetch_context(principal, ContextRequest(query=query))
            for query in queries
        ]
        return [[entry.content for entry in context.entries] for context in contexts]
    finally:
        await tiers.close()
        await store.close()


async def test_notes_are_fetched_that_answer_in_other_words(tmp_path: Path) -> None:
    fetched = await fetch_all(tmp_path, [*QUESTIONS], is_indexed=True)

    assert [texts[:1] for texts in fetched] == [[note] for note in QUESTIONS.values()]


@pytest.mark.parametrize("is_indexed", [False, True])
async def test_nothing_is_fetched_for_a_question_that_no_note_answers(
    tmp_path: Path, *, is_indexed: bool
) -> None:
    assert await fetch_all(tmp_path, [*FOREIGN], is_indexed=is_indexed) == [[], [], []]

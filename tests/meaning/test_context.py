"""Fetched context holds what answers a question in other words, and nothing where nothing does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from bench.note_questions import ASKED_NOTES, FOREIGN_QUERIES
from engram import limits
from engram.model.memory import NoteDraft
from engram.model.recall import ContextRequest
from tests.meaning.local_service import open_local_service
from tests.promises import promise

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


class Fetch(Protocol):
    """Fetches the texts of a context."""

    async def __call__(self, query: str, min_score: float | None = None) -> list[str]: ...


@asynccontextmanager
async def notes_kept(
    directory: Path, notes: Sequence[NoteDraft], *, is_indexed: bool
) -> AsyncGenerator[Fetch]:
    """Keep notes, and yield a function that returns the texts that a query brings, best first."""
    async with open_local_service(directory) as local:
        for start in range(0, len(notes), limits.MEMORIES_PER_CALL_MAX):
            batch = notes[start : start + limits.MEMORIES_PER_CALL_MAX]
            await local.service.memories.store_notes(local.me, batch)
        if is_indexed:
            await local.index()

        async def fetch(query: str, min_score: float | None = None) -> list[str]:
            request = ContextRequest(query=query, min_score=min_score)
            context = await local.service.search.fetch_context(local.me, request)
            return [entry.content for entry in context.entries]

        yield fetch


async def fetch_all(directory: Path, queries: list[str], *, is_indexed: bool) -> list[list[str]]:
    notes = [NoteDraft(content=text) for text in NOTES]
    async with notes_kept(directory, notes, is_indexed=is_indexed) as fetch:
        return [await fetch(query) for query in queries]


async def test_notes_are_fetched_that_answer_in_other_words(tmp_path: Path) -> None:
    fetched = await fetch_all(tmp_path, [*QUESTIONS], is_indexed=True)

    assert [texts[:1] for texts in fetched] == [[note] for note in QUESTIONS.values()]


@promise("bounded")
@pytest.mark.parametrize("is_indexed", [False, True])
async def test_nothing_is_fetched_for_a_question_that_no_note_answers(
    tmp_path: Path, *, is_indexed: bool
) -> None:
    assert await fetch_all(tmp_path, [*FOREIGN], is_indexed=is_indexed) == [[], [], []]


EDGE_NOTES = (
    NoteDraft(content="users abandon checkout at the payment gateway", category="feedback"),
    NoteDraft(content="Decided to host the worker on the edge platform", category="project"),
    NoteDraft(content="The vector index has 384 dimensions", category="technical"),
    NoteDraft(content="Release 2 of the storefront is planned for June", category="project"),
    NoteDraft(content="The storefront migration is half done", category="project"),
    NoteDraft(content="Embeddings come from the platform's own model", category="technical"),
    NoteDraft(content="Anna wants weekly summaries by mail", category="user_pref"),
    NoteDraft(content="The office plants are watered on Mondays"),
    NoteDraft(content="The coffee machine needs descaling"),
)


@pytest.mark.parametrize(("is_indexed", "first"), [(False, 2), (True, 1)])
async def test_the_example_of_the_edge_layer_is_fetched(
    tmp_path: Path, *, is_indexed: bool, first: int
) -> None:
    async with notes_kept(tmp_path, EDGE_NOTES, is_indexed=is_indexed) as fetch:
        fetched = await fetch("onboarding friction points")

    assert "users abandon checkout at the payment gateway" in fetched[:first]


@pytest.mark.parametrize("is_indexed", [False, True])
async def test_the_session_start_query_brings_status_and_decisions(
    tmp_path: Path, *, is_indexed: bool
) -> None:
    async with notes_kept(tmp_path, EDGE_NOTES, is_indexed=is_indexed) as fetch:
        fetched = await fetch("project status and recent decisions")

    fitting = {note.content for note in EDGE_NOTES if note.category == "project"}
    assert len(fetched) == 5
    assert fitting <= {*fetched}


@promise("bounded")
async def test_the_cut_keeps_answers_and_is_silent_on_foreign_questions(tmp_path: Path) -> None:
    """`python -m bench notes` measures stores of other sizes too."""
    notes = [NoteDraft(content=note.content) for note in ASKED_NOTES]

    async with notes_kept(tmp_path, notes, is_indexed=True) as fetch:
        found = [note for note in ASKED_NOTES if note.content in await fetch(note.question, 0.0)]
        kept = [note for note in found if note.content in await fetch(note.question)]
        foreign = {query: bool(await fetch(query)) for query in FOREIGN_QUERIES}

    answered = [is_answered for query, is_answered in foreign.items() if query.endswith("?")]
    assert len(kept) >= 0.97 * len(found) > 0.95 * len(ASKED_NOTES)
    assert sum(answered) <= 0.25 * len(answered)

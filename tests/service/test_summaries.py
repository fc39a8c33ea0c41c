"""Summaries with and without a language model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import NotFoundError
from engram.language import OpenAIModel
from engram.model.access import Principal
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft
from engram.model.recall import MemoryFetch
from engram.service import Service
from engram.settings import Settings
from engram.text.quoting import FIRST_LINE, quote
from engram.wiring import open_service
from tests.language.service import Service as LanguageService
from tests.language.service import failing, running_language_service, saying

LONG = "The importer skips empty files. It logs a warning for each of them. " * 20


@pytest.fixture
def model() -> Iterator[LanguageService]:
    """A running service of language models."""
    with running_language_service() as service:
        yield service


@asynccontextmanager
async def opened(home: Path, url: str) -> AsyncGenerator[tuple[Service, Principal, MemoryId]]:
    """Open a service with a language model, and store one memory."""
    settings = Settings(
        home=home,
        embedder=NoEmbedder(),
        language_model=OpenAIModel("small", url),
        language_model_key="sk-secret",
    )
    async with open_service(settings) as service:
        principal = await service.access.local_principal()
        kept = await service.memories.store(principal, MemoryDraft(content=LONG))
        yield service, principal, kept.memories[0].id


async def test_a_language_model_writes_the_summary(tmp_path: Path, model: LanguageService) -> None:
    model.usual = saying("Empty files are skipped.")

    async with opened(tmp_path, model.url) as (service, principal, memory_id):
        made = await service.summaries.summarize(principal, memory_id)
        memory = (await service.memories.fetch(principal, MemoryFetch(id=memory_id))).memory

    assert (made.summary, made.method) == ("Empty files are skipped.", "language_model")
    assert (memory.summary, memory.content, memory.version) == (made.summary, LONG, 1)
    (asked,) = model.asked
    assert asked.body["messages"][1]["content"] == f"{FIRST_LINE}\n{quote(LONG)}"


@pytest.mark.parametrize("status", [401, 404])
async def test_a_model_that_fails_is_done_without_and_the_answer_says_so(
    tmp_path: Path, model: LanguageService, status: int
) -> None:
    model.usual = failing(status)

    async with opened(tmp_path, model.url) as (service, principal, memory_id):
        made = await service.summaries.summarize(principal, memory_id)

    assert made.method == "extractive"
    assert made.summary.startswith("The importer skips empty files.")
    assert str(status) in (made.degraded or "")


async def test_a_model_that_writes_too_much_is_done_without(
    tmp_path: Path, model: LanguageService
) -> None:
    model.usual = saying("word " * limits.SUMMARY_BYTES_MAX)

    async with opened(tmp_path, model.url) as (service, principal, memory_id):
        made = await service.summaries.summarize(principal, memory_id)

    assert made.method == "extractive"
    assert made.degraded is not None


async def test_of_a_very_long_text_the_model_reads_what_is_central(
    tmp_path: Path, model: LanguageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LANGUAGE_TEXT_TOKENS_MAX", 25)

    async with opened(tmp_path, model.url) as (service, principal, memory_id):
        await service.summaries.summarize(principal, memory_id)

    (asked,) = model.asked
    first, *others = asked.body["messages"][1]["content"].split("\n")
    assert first == FIRST_LINE
    assert 50 < len("\n".join(others)) <= 100


async def test_a_memory_of_another_project_is_not_summed_up(
    service: Service, principal: Principal
) -> None:
    kept = await service.memories.store(principal, MemoryDraft(content=LONG))

    with pytest.raises(NotFoundError):
        await service.summaries.summarize(principal, kept.memories[0].id, project="another")

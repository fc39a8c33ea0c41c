"""Whether sentences planted deep in a large document are found: by words, by meaning, in spans."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from bench.figures import Figure
from bench.filling import new_organization
from bench.opening import Parts, open_parts
from bench.pairs import PAIRS, Pair
from bench.prose import paragraphs
from engram.embedding.choice import LocalModel
from engram.model.access import Principal
from engram.model.document import DocumentDraft, DocumentQuery
from engram.model.ids import MemoryId
from engram.model.search import ProfileName, SearchRequest
from engram.settings import Settings

FULL_BYTES = 40_000_000
QUICK_BYTES = 4_000_000
DEEP_BYTES = 1_000_000
DEEP_QUICK_BYTES = 100_000
"""Deep vectors take a minute of processor time for each megabyte."""

PLANTED = PAIRS[:20]
RESULTS = 10

_sentence = attrgetter("message")
_other_words = attrgetter("question")


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return how many of the sentences are found, each way."""
    return [
        *asyncio.run(_measure_at_once(QUICK_BYTES if quick else FULL_BYTES)),
        *asyncio.run(_measure_later(DEEP_QUICK_BYTES if quick else DEEP_BYTES)),
    ]


async def _measure_at_once(size: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        async with planted_document(Path(directory), size=size) as document:
            return [
                _figure("by words", await document.found("words"), size),
                _figure("by instant vectors", await document.found("vectors"), size),
                _figure("by both", await document.found("default"), size),
                _figure("in spans near to them", await document.in_spans(), size),
                _figure(
                    "by instant vectors, asked for in other words",
                    await document.found("vectors", in_other_words=True),
                    size,
                    is_bound=False,
                ),
            ]


async def _measure_later(size: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        async with planted_document(Path(directory), size=size) as document:
            await document.deepen()
            return [
                _figure("by deep vectors", await document.found("vectors"), size),
                _figure(
                    "by deep vectors, asked for in other words",
                    await document.found("vectors", in_other_words=True),
                    size,
                    is_bound=False,
                ),
                _figure(
                    "in spans near to a question in other words, with deep vectors",
                    await document.in_spans(in_other_words=True),
                    size,
                    is_bound=False,
                ),
            ]


def _figure(way: str, found: int, size: int, *, is_bound: bool = True) -> Figure:
    return Figure(
        name=f"sentences planted in a document of {size / 1_000_000:g} MB found {way}",
        value=found,
        unit="of them",
        floor=len(PLANTED),
        floor_name="all",
        direction="at least",
        bound=1.0 if is_bound else None,
    )


@asynccontextmanager
async def planted_document(directory: Path, *, size: int) -> AsyncGenerator[PlantedDocument]:
    """Store and index a document with the sentences in it, and yield it."""
    async with open_parts(Settings(home=directory, embedder=LocalModel())) as parts:
        principal = await new_organization(parts.service)
        stored = await parts.service.documents.store_stream(
            principal, DocumentDraft(name="planted.md"), _stream(_with_planted(size))
        )
        while await parts.service.document_indexing.work(principal.organization_id):
            pass
        yield PlantedDocument(parts, principal, stored.document.memory_id)


@dataclass(frozen=True, slots=True)
class PlantedDocument:
    """A document in which the sentences are looked for."""

    parts: Parts
    principal: Principal
    memory_id: MemoryId

    async def deepen(self) -> None:
        """Give every part its deep vectors."""
        while await self.parts.indexer.work(self.principal.organization_id):
            pass

    async def found(self, profile: ProfileName, *, in_other_words: bool = False) -> int:
        """Return how many sentences are in what searches for them find first."""
        ask = _other_words if in_other_words else _sentence
        return sum([await self._is_found(pair, ask(pair), profile) for pair in PLANTED])

    async def in_spans(self, *, in_other_words: bool = False) -> int:
        """Return how many sentences are in the spans of questions about the document."""
        ask = _other_words if in_other_words else _sentence
        return sum([await self._is_in_spans(pair, ask(pair)) for pair in PLANTED])

    async def _is_found(self, pair: Pair, query: str, profile: ProfileName) -> bool:
        request = SearchRequest(
            query=query, limit=RESULTS, profile=profile, token_budget=10_000, min_score=0
        )
        answer = await self.parts.service.search.search(self.principal, request)
        chunks = [item.message.content for result in answer.results for item in result.messages]
        return _holds(chunks, pair.message)

    async def _is_in_spans(self, pair: Pair, question: str) -> bool:
        query = DocumentQuery(memory_ids=(self.memory_id,), question=question)
        answer = await self.parts.service.search.query_document(self.principal, query)
        return _holds([span.text for span in answer.spans], pair.message)


def _with_planted(size: int) -> list[str]:
    """Return paragraphs, at random places of which a sentence stands amid of others."""
    texts, chance = list(paragraphs(size)), random.Random(3)  # noqa: S311 places, not secrets
    places = chance.sample(range(len(texts)), len(PLANTED))
    for pair, place in zip(PLANTED, places, strict=True):
        before, _, after = texts[place].partition(". ")
        texts[place] = f"{before}. {pair.message} {after}"
    return texts


async def _stream(texts: Sequence[str]) -> AsyncIterator[bytes]:
    for text in texts:
        yield text.encode()


def _holds(texts: Sequence[str], sentence: str) -> bool:
    return any(sentence in text for text in texts)

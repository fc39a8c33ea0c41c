"""Whether sentences planted deep in a large document are found: by words, by meaning, in spans."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from bench.figures import Figure
from bench.filling import new_organization
from bench.opening import Parts, open_parts
from bench.pairs import PAIRS
from bench.prose import paragraphs
from engram.embedding.choice import LocalModel
from engram.model.access import Principal
from engram.model.document import DocumentDraft
from engram.model.document_query import DocumentQuery
from engram.model.search import ProfileName, SearchRequest
from engram.settings import Settings

FULL_BYTES = 40_000_000
QUICK_BYTES = 4_000_000
SENTENCES = 20
RESULTS = 10


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return how many of the sentences are found, each way."""
    size = QUICK_BYTES if quick else FULL_BYTES
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        return asyncio.run(_measure(Path(directory), size))


async def _measure(directory: Path, size: int) -> list[Figure]:
    planted = [pair.message for pair in PAIRS[:SENTENCES]]
    settings = Settings(home=directory, embedder=LocalModel())
    async with open_parts(settings) as parts:
        principal = await new_organization(parts.service)
        stored = await parts.service.documents.store_stream(
            principal, DocumentDraft(name="planted.md"), _stream(_with_planted(size, planted))
        )
        while await parts.service.document_indexing.work(principal.organization_id):
            pass
        memory_id = stored.document.memory_id
        found = {
            "by words": [await _is_found(parts, principal, one, "words") for one in planted],
            "by instant vectors": [
                await _is_found(parts, principal, one, "vectors") for one in planted
            ],
            "by both": [await _is_found(parts, principal, one, "default") for one in planted],
            "in spans near to them": [
                await _is_in_spans(parts, principal, memory_id, one) for one in planted
            ],
        }
    return [_figure(way, sum(each), size) for way, each in found.items()]


def _with_planted(size: int, planted: Sequence[str]) -> list[str]:
    """Return paragraphs, at random places of which a sentence stands amid of others."""
    texts, chance = list(paragraphs(size)), random.Random(3)  # noqa: S311 places, not secrets
    for sentence, place in zip(
        planted, chance.sample(range(len(texts)), len(planted)), strict=True
    ):
        before, _, after = texts[place].partition(". ")
        texts[place] = f"{before}. {sentence} {after}"
    return texts


async def _stream(texts: Sequence[str]) -> AsyncIterator[bytes]:
    for text in texts:
        yield text.encode()


async def _is_found(
    parts: Parts, principal: Principal, sentence: str, profile: ProfileName
) -> bool:
    request = SearchRequest(query=sentence, limit=RESULTS, profile=profile, token_budget=10_000)
    answer = await parts.service.recall.search(principal, request)
    chunks = [item.message.content for result in answer.results for item in result.messages]
    return _holds(chunks, sentence)


async def _is_in_spans(parts: Parts, principal: Principal, memory_id: str, sentence: str) -> bool:
    query = DocumentQuery(memory_ids=(memory_id,), question=sentence)
    answer = await parts.service.document_queries.query(principal, query)
    return _holds([span.text for span in answer.spans], sentence)


def _holds(texts: Sequence[str], sentence: str) -> bool:
    return any(sentence in text for text in texts)


def _figure(way: str, found: int, size: int) -> Figure:
    return Figure(
        name=f"sentences planted in a document of {size / 1_000_000:.0f} MB found {way}",
        value=found,
        unit="of them",
        floor=SENTENCES,
        floor_name="all",
        direction="at least",
        bound=1.0 if way in {"by words", "by both", "in spans near to them"} else None,
    )

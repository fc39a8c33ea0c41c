"""A sentence of a document is found by its meaning: at once, and in other words after deep indexing.

`python -m bench planted` measures it on large documents.
"""

from __future__ import annotations

from pathlib import Path

from bench.planted import PLANTED, planted_document
from tests.promises import promise

pytestmark = promise("findable", "whole-body")


async def test_sentences_of_a_document_are_found_by_meaning_at_once(tmp_path: Path) -> None:
    async with planted_document(tmp_path, size=400_000) as document:
        assert await document.found("vectors") == len(PLANTED)
        assert await document.found("vectors", in_other_words=True) >= 0.7 * len(PLANTED)


async def test_sentences_of_a_document_are_found_in_other_words_after_deep_indexing(
    tmp_path: Path,
) -> None:
    async with planted_document(tmp_path, size=60_000) as document:
        await document.deepen()

        assert await document.found("vectors") == len(PLANTED)
        assert await document.found("vectors", in_other_words=True) == len(PLANTED)
        assert await document.in_spans(in_other_words=True) == len(PLANTED)

"""Long texts to measure documents with: sections of paragraphs of real sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from bench.texts import chat

PARAGRAPH_SENTENCES = 8
SECTION_PARAGRAPHS = 20


def paragraphs(size_bytes: int) -> Iterator[str]:
    """Yield paragraphs and headings of about so many bytes together."""
    texts = chat(10**9)
    for number in count():
        if size_bytes <= 0:
            return
        text = " ".join(next(texts) for _ in range(PARAGRAPH_SENTENCES)) + "\n\n"
        if number % SECTION_PARAGRAPHS == 0:
            text = f"## Section {number // SECTION_PARAGRAPHS + 1}\n\n{text}"
        size_bytes -= len(text.encode())
        yield text

"""Tokenizers as models use them: whole texts, without padding, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

SLICE_CHARACTERS = 50_000
"""Counted at once; an encoding takes some fifty bytes for each character."""


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer in a file, without the padding and cutting it may ask for."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def count_tokens(tokenizer: Tokenizer, text: str) -> int:
    """Return how many tokens a text has, without special ones.

    Of a long text without blanks it may be a few more than there are.
    """
    return sum(len(tokenizer.encode(part, add_special_tokens=False).ids) for part in _slices(text))


def _slices(text: str) -> Iterator[str]:
    """Yield the text in parts that end at blanks, where no token goes on."""
    start = 0
    while len(text) - start > SLICE_CHARACTERS:
        blank = text.rfind(" ", start + 1, start + SLICE_CHARACTERS)
        end = blank if blank > 0 else start + SLICE_CHARACTERS
        yield text[start:end]
        start = end
    yield text[start:]

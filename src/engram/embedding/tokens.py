"""Tokenizers as models use them: whole texts, without padding, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

SLICE_CHARACTERS = 50_000
"""Counted at once; an encoding takes some fifty bytes for each character."""

ALONE_CHARACTERS_MIN = 500
"""A shorter text takes some 0.1 ms, less than the call that lets other threads run."""


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
    return sum(len(token_ids(tokenizer, part, with_special=False)) for part in _slices(text))


def token_ids(tokenizer: Tokenizer, text: str, *, with_special: bool = True) -> list[int]:
    """Return the tokens of a text; a long one keeps no other thread from running."""
    if len(text) < ALONE_CHARACTERS_MIN:
        return tokenizer.encode(text, add_special_tokens=with_special).ids
    # Of the library's calls only those for batches release the interpreter's lock.
    return tokenizer.encode_batch_fast([text], add_special_tokens=with_special)[0].ids


def _slices(text: str) -> Iterator[str]:
    """Yield the text in parts that end at blanks, where no token goes on."""
    start = 0
    while len(text) - start > SLICE_CHARACTERS:
        blank = text.rfind(" ", start + 1, start + SLICE_CHARACTERS)
        end = blank if blank > 0 else start + SLICE_CHARACTERS
        yield text[start:end]
        start = end
    yield text[start:]

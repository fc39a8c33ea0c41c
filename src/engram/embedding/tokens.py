"""Tokenizers: loading, counting tokens in bounded memory, and a cache of the tokens of words.

Imports tokenizers, so it is itself imported when a text is first tokenized.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from tokenizers import Tokenizer

from engram import limits
from engram.yielding import yield_to_others

SLICE_CHARACTERS = 50_000
"""Characters tokenized at once; an encoding takes some fifty bytes for each."""

BATCH_CALL_CHARACTERS_MIN = 500
"""A shorter text takes some 0.1 ms, less than the overhead of a call that releases the GIL."""

_PARTS = re.compile("[a-z0-9]+|[^a-z0-9]")


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer, without the padding and truncation that its file may ask for."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def count_tokens(tokenizer: Tokenizer, text: str) -> int:
    """Return the number of tokens of a text, without special ones.

    A long text without spaces may count a few too many.
    """
    return sum(len(token_ids(tokenizer, part, with_special=False)) for part in _slices(text))


def token_ids(tokenizer: Tokenizer, text: str, *, with_special: bool = True) -> list[int]:
    """Return the tokens of a text, without holding the GIL for a long one."""
    if len(text) < BATCH_CALL_CHARACTERS_MIN:
        return tokenizer.encode(text, add_special_tokens=with_special).ids
    # Of the library's calls only those for batches release the GIL.
    return tokenizer.encode_batch_fast([text], add_special_tokens=with_special)[0].ids


def _slices(text: str) -> Iterator[str]:
    """Yield the text in slices that end at spaces, which no token crosses."""
    start = 0
    while len(text) - start > SLICE_CHARACTERS:
        space = text.rfind(" ", start + 1, start + SLICE_CHARACTERS)
        end = space if space > 0 else start + SLICE_CHARACTERS
        yield text[start:end]
        start = end
    yield text[start:]


class WordPieces:
    """An uncased BERT tokenizer with a cache of the tokens of words; thread-safe.

    A lookup is a hundred times faster than the tokenizer, and most words of a text have occurred
    before. The result is the same, because the tokenizer's model never looks beyond a space.
    """

    def __init__(self, tokenizer: Tokenizer, *, unknown: int | None) -> None:
        self._tokenizer = tokenizer
        self._unknown = unknown
        self._cache = _TokenCache(self._tokens_of_word)

    @property
    def cached_words(self) -> int:
        """Return the number of words in the cache."""
        return len(self._cache)

    def known_tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, without special and unknown ones."""
        words = text.replace("\n", " ").split(" ")
        return list(chain.from_iterable(map(self._cache.__getitem__, words)))

    def _tokens_of_word(self, word: str) -> Sequence[int]:
        # A bracket may start the name of a special token, which must not be split.
        if not (word.isascii() and word.isprintable()) or "[" in word:
            return self._encode(word)
        parts: list[str] = _PARTS.findall(word.lower())
        if parts == [word]:
            return self._encode(word)
        return [token for part in parts for token in self._cache[part]]

    def _encode(self, part: str) -> Sequence[int]:
        """Return the tokens of a word, or of a part of one that no token crosses."""
        ids = token_ids(self._tokenizer, part, with_special=False)
        return [token for token in ids if token != self._unknown]


class _TokenCache(dict[str, Sequence[int]]):
    """Cache of the tokens of words, emptied when it is full."""

    def __init__(self, tokens_of: Callable[[str], Sequence[int]]) -> None:
        super().__init__()
        self._tokens_of = tokens_of

    def __missing__(self, word: str) -> Sequence[int]:
        yield_to_others()
        tokens = tuple(self._tokens_of(word))
        if len(word) <= limits.CACHED_WORD_CHARACTERS_MAX:
            if len(self) >= limits.CACHED_WORDS_MAX:
                self.clear()
            self[word] = tokens
        return tokens

"""Tokens of texts, word by word, from memory where a word has come before.

A tokenizer spends a hundred times longer on a word than a look-up does, and most of a text is words
that came before. What it gives is the same: its model never looks beyond a blank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain

from tokenizers import Tokenizer

from engram.embedding.tokens import token_ids
from engram.yielding import yield_to_others

WORDS_MAX = 40_000
"""Words remembered, some 8 MB; nine in ten words of a text are among fewer."""

WORD_CHARACTERS_MAX = 32
"""Of a word that is remembered; longer ones hardly come again."""

_PARTS = re.compile("[a-z0-9]+|[^a-z0-9]")


class WordPieces:
    """What an uncased BERT tokenizer knows of texts; safe to use from several threads at once."""

    def __init__(self, tokenizer: Tokenizer, *, unknown: int | None) -> None:
        self._tokenizer = tokenizer
        self._unknown = unknown
        self._remembered = _Remembered(self._of_word)

    @property
    def remembered(self) -> int:
        """Return how many words are remembered."""
        return len(self._remembered)

    def known_tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, without special and unknown ones."""
        words = text.replace("\n", " ").split(" ")
        return list(chain.from_iterable(map(self._remembered.__getitem__, words)))

    def _of_word(self, word: str) -> Sequence[int]:
        # A bracket may open the name of a special token, which is not taken apart.
        if not (word.isascii() and word.isprintable()) or "[" in word:
            return self._encoded(word)
        parts: list[str] = _PARTS.findall(word.lower())
        if parts == [word]:
            return self._encoded(word)
        return [token for part in parts for token in self._remembered[part]]

    def _encoded(self, part: str) -> Sequence[int]:
        """Return the tokens of what stands between blanks, or of what no token goes beyond."""
        ids = token_ids(self._tokenizer, part, with_special=False)
        return [token for token in ids if token != self._unknown]


class _Remembered(dict[str, Sequence[int]]):
    """The tokens of words, made when they are first asked for."""

    def __init__(self, tokens_of: Callable[[str], Sequence[int]]) -> None:
        super().__init__()
        self._tokens_of = tokens_of

    def __missing__(self, word: str) -> Sequence[int]:
        yield_to_others()
        tokens = tuple(self._tokens_of(word))
        if len(word) <= WORD_CHARACTERS_MAX:
            if len(self) >= WORDS_MAX:
                self.clear()
            self[word] = tokens
        return tokens

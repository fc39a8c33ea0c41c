"""Tokens of texts, word by word, from memory where a word has come before.

A tokenizer spends a hundred times longer on a word than a look-up does, and most of a text is words
that came before. What it gives is the same: its model never looks beyond a blank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenizers import Tokenizer

WORDS_MAX = 20_000
"""Words remembered, some 4 MB; nine in ten words of chats are among fewer."""

WORD_CHARACTERS_MAX = 32
"""Of a word that is remembered; longer ones hardly come again."""

_PARTS = re.compile("[a-z0-9]+|[^a-z0-9]")


class WordPieces:
    """What an uncased BERT tokenizer knows of texts; safe to use from several threads at once."""

    def __init__(self, tokenizer: Tokenizer, *, unknown: int | None) -> None:
        self._tokenizer = tokenizer
        self._unknown = unknown
        self._remembered: dict[str, Sequence[int]] = {}

    @property
    def remembered(self) -> int:
        """Return how many words are remembered."""
        return len(self._remembered)

    def known_tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, without special and unknown ones."""
        tokens = list[int]()
        for word in text.replace("\n", " ").split(" "):
            found = self._remembered.get(word)
            tokens.extend(self._of_word(word) if found is None else found)
        return tokens

    def _of_word(self, word: str) -> Sequence[int]:
        # A bracket may open the name of a special token, which is not taken apart.
        if not (word.isascii() and word.isprintable()) or "[" in word:
            return self._of_part(word)
        return [token for part in _PARTS.findall(word.lower()) for token in self._of_part(part)]

    def _of_part(self, part: str) -> Sequence[int]:
        """Return the tokens of what stands between blanks, or of what no token goes beyond."""
        found = self._remembered.get(part)
        if found is not None:
            return found
        ids = self._tokenizer.encode(part, add_special_tokens=False).ids
        tokens = tuple(token for token in ids if token != self._unknown)
        if len(part) <= WORD_CHARACTERS_MAX:
            if len(self._remembered) >= WORDS_MAX:
                self._remembered.clear()
            self._remembered[part] = tokens
        return tokens

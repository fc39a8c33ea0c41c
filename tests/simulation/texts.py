"""Texts of every length and script, each with a word that no other text has."""

from __future__ import annotations

import itertools
import random

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aou"
_FILLER: tuple[str, ...] = (
    "the deploy of tuesday failed because a certificate had expired",
    "wir treffen uns am bahnhof, Gleis 7",
    "パスワードは変更されました",
    "она сказала, что придёт завтра",
    "\U0001f9d1\u200d\U0001f680 launch \u2014 caf\u00e9 cafe\u0301 \u202eabc\u202c",
    "SELECT * FROM t WHERE a = 'b' -- \"c\" %_\\ \x7f",
    "line one\nline two\r\n\tline three",
)


class Texts:
    """A seeded source of texts and words."""

    def __init__(self, chance: random.Random) -> None:
        self._random = chance
        self._numbers = itertools.count(1)

    def word(self) -> str:
        """Return a word that was never returned before."""
        number, letters = next(self._numbers), ""
        while number or len(letters) < 8:
            number, consonant = divmod(number, len(_CONSONANTS))
            letters += _CONSONANTS[consonant] + self._random.choice(_VOWELS)
        return f"zq{letters}x"

    def text(self) -> tuple[str, str]:
        """Return a text and the word in it; an empty text has none."""
        size = self._random.random()
        if size < 0.03:
            return "", ""
        word = self.word()
        if size > 0.99:
            sentences = self._random.choices(_FILLER, k=self._random.randint(40, 400))
        else:
            sentences = self._random.choices(_FILLER, k=self._random.randint(0, 3))
        sentences.insert(self._random.randint(0, len(sentences)), f"they call it {word} here")
        return ". ".join(sentences), word

"""Near-duplicate texts: MinHash finds candidates, the character n-grams they share decide.

A MinHash keeps 128 numbers of a text's bigrams; texts that agree in one of 16 bands of eight
numbers are candidates. Of two texts that share 85 % of their bigrams 99.4 % are, of two that share
half of them 6 %. The seed is fixed, so the same texts always have the same candidates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engram.text.analyse import STOP_WORDS

if TYPE_CHECKING:
    from rensa import RMinHash as MinHash

PERMUTATIONS = 128
BANDS = 16
SEED = 1

JACCARD_MIN = 0.85
"""Share of character bigrams that near-duplicates have in common."""

COMBINED_MIN = 0.80
"""What `JACCARD_WEIGHT` of the share and the rest of the cosine come to, at least."""

JACCARD_WEIGHT = 0.7

LONG_CHARACTERS = 1_000
"""Longer texts of one language share most bigrams by chance, so longer n-grams must agree as well."""

LONG_NGRAM = 9
LONG_JACCARD_MIN = 0.7

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\w+")
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")


class Similarity(NamedTuple):
    """How similar two texts are, by their characters and by their meaning."""

    jaccard: float
    cosine: float | None = None
    """None without an embedder: then the bigrams decide alone."""

    @property
    def combined(self) -> float:
        """Return both in one figure, from 0 to 1."""
        if self.cosine is None:
            return self.jaccard
        return JACCARD_WEIGHT * self.jaccard + (1 - JACCARD_WEIGHT) * self.cosine

    @property
    def is_confirmed(self) -> bool:
        """Return True if the texts are near-duplicates."""
        return self.jaccard >= JACCARD_MIN and self.combined >= COMBINED_MIN


class MinHashIndex:
    """Index of many texts, each known by a number, that returns the candidates for another."""

    def __init__(self) -> None:
        from rensa import RMinHashLSH  # noqa: PLC0415 only consolidation needs it

        self._index = RMinHashLSH(threshold=JACCARD_MIN, num_perm=PERMUTATIONS, num_bands=BANDS)

    def add(self, number: int, minhash: MinHash) -> None:
        """Let later texts find this one."""
        self._index.insert(number, minhash)

    def candidates(self, minhash: MinHash) -> Sequence[int]:
        """Return the numbers of the texts that may be near-duplicates, in order."""
        return sorted(set(self._index.query(minhash)))


def minhash_of(text: str) -> MinHash:
    """Return the MinHash of a text, the same in every process."""
    from rensa import RMinHash  # noqa: PLC0415 only consolidation needs it

    made = RMinHash(PERMUTATIONS, SEED)
    made.update(sorted(ngrams(folded(text))))
    return made


def find_candidates(texts: Iterable[str]) -> list[tuple[int, int]]:
    """Return the pairs of positions whose texts may be near-duplicates, the earlier one first."""
    index = MinHashIndex()
    pairs = list[tuple[int, int]]()
    for position, text in enumerate(texts):
        minhash = minhash_of(text)
        pairs.extend((earlier, position) for earlier in index.candidates(minhash))
        index.add(position, minhash)
    return pairs


def folded(text: str) -> str:
    """Return a text without what makes no difference: case, width, and how words are spaced."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def ngrams(text: str, *, length: int = 2) -> frozenset[str]:
    """Return the character n-grams of a folded text; a shorter text is one n-gram."""
    if len(text) <= length:
        return frozenset((text,))
    return frozenset(text[start : start + length] for start in range(len(text) - length + 1))


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets."""
    together = len(first | second)
    return len(first & second) / together if together else 1.0


def compare_characters(first: str, second: str) -> float:
    """Return the Jaccard similarity of two texts' bigrams, 0 if their numbers or names differ."""
    if _differ_in_facts(first, second):
        return 0.0
    first, second = folded(first), folded(second)
    if max(len(first), len(second)) > LONG_CHARACTERS:
        long = jaccard(ngrams(first, length=LONG_NGRAM), ngrams(second, length=LONG_NGRAM))
        if long < LONG_JACCARD_MIN:
            return 0.0
    return jaccard(ngrams(first), ngrams(second))


def _differ_in_facts(first: str, second: str) -> bool:
    """Return True if two texts, however similar, are about different things.

    They are if they differ in a number (ports, dates, versions, amounts), or if each names
    somebody or something that the other does not.
    """
    if _numbers(first) != _numbers(second):
        return True
    words = [_words(text) for text in (first, second)]
    known = [{word.casefold() for word in each} for each in words]
    return bool(_names(words[0]) - known[1]) and bool(_names(words[1]) - known[0])


def _words(text: str) -> list[str]:
    found: list[str] = _WORD.findall(unicodedata.normalize("NFKC", text))
    return found


def _names(words: Sequence[str]) -> set[str]:
    """Return the capitalised words, but for those that often begin a sentence."""
    return {word.casefold() for word in words if word[0].isupper()} - STOP_WORDS


def _numbers(text: str) -> list[str]:
    """Return the numbers of a text, sorted and without thousands separators."""
    found: list[str] = _NUMBER.findall(text)
    return sorted(_THOUSANDS.sub("", number) for number in found)

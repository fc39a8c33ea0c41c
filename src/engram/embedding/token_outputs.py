"""Vectors of tokens, made of what a model returns for each on the way to the vector of a text.

Imports NumPy, so it is itself imported when a text is first embedded.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from engram.limits import LATE_QUERY_TOKENS_MAX
from engram.model.vectors import QueryTokens
from engram.text.analyse import STOP_WORDS
from engram.vectors.tokens import TOKENS_MAX, pack_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from engram.embedding.onnx_model import ModelOutput
    from engram.embedding.port import Vectors

_CONTRACTED = frozenset(("s", "t", "d", "m", "re", "ve", "ll"))
"""What is left of `it's` or `don't`."""

_FREQUENT_IDS = 1990
"""In BERT's vocabulary, pieces of words come after so many characters and reserved ids, the most frequent
first: so the logarithm of a piece's place there is about that of how rare it is."""

_MERGED_SHARE = 8
"""Of the tokens that are left, at most one in so many is merged before they are compared again."""


class TokenProjection:
    """Turns a model's outputs for tokens into vectors to compare: centred, projected and normalised.

    Outputs have a direction in common, and most of their variance in few dimensions. Without the first
    all tokens are alike; the projection evens out the second and drops the least dimensions.
    """

    def __init__(self, resource: str, tokenizer: Tokenizer) -> None:
        with files("engram.embedding").joinpath(resource).open("rb") as file:
            rows = np.load(file, allow_pickle=False).astype(np.float32)
        self._mean, self._query_mean, self._directions = rows[0], rows[1], rows[2:]
        self._empty = {
            number for piece, number in tokenizer.get_vocab().items() if _is_empty(piece)
        }

    def pack(self, output: ModelOutput) -> bytes:
        """Return the vectors of a passage's tokens; empty if it has no word."""
        places = self._words(output.ids, start=1)
        if not places:
            return b""
        vectors = self._project(output.rows[places], self._mean)
        return pack_tokens(merge_neighbours(vectors, TOKENS_MAX))

    def ask(self, output: ModelOutput, *, start: int) -> QueryTokens | None:
        """Return the vectors of a query's tokens from `start` on; None if it has no word.

        Those of a long query are its rarest.
        """
        places = self._words(output.ids, start=start)
        if not places:
            return None
        weights = np.log(np.maximum(np.array(output.ids)[places] - _FREQUENT_IDS, 2.0))
        rarest = np.sort((-weights).argsort(kind="stable")[:LATE_QUERY_TOKENS_MAX])
        vectors = self._project(output.rows[places], self._query_mean)
        return QueryTokens(vectors=vectors[rarest], weights=weights[rarest])

    def _words(self, ids: Sequence[int], *, start: int) -> list[int]:
        """Return the places of tokens that say something; the last is the special one that ends a text."""
        return [place for place in range(start, len(ids) - 1) if ids[place] not in self._empty]

    def _project(self, rows: Vectors, mean: NDArray[np.float32]) -> Vectors:
        return _unit((_unit(rows) - mean) @ self._directions.T)


def merge_neighbours(vectors: Vectors, count: int) -> Vectors:
    """Return at most `count` unit vectors, merging neighbours that are most alike."""
    sums, units = vectors, vectors
    while len(units) > count:
        alike = np.vecdot(units[1:], units[:-1])
        merged = _disjoint(
            (-alike).argsort(kind="stable").tolist(),
            min(len(units) - count, max(1, len(units) // _MERGED_SHARE)),
        )
        sums = sums.copy()
        sums[merged] += sums[np.array(merged) + 1]
        sums = np.delete(sums, np.array(merged) + 1, axis=0)
        units = _unit(sums)
    return units


def _disjoint(places: Sequence[int], count: int) -> list[int]:
    """Return the first `count` positions, no two of them adjacent."""
    taken: list[int] = []
    used = set[int]()
    for place in places:
        if len(taken) == count:
            break
        if not {place, place + 1} & used:
            used |= {place, place + 1}
            taken.append(place)
    return taken


def _is_empty(piece: str) -> bool:
    """Return True for special tokens, punctuation and words such as `the`."""
    is_special = piece.startswith("[") and piece.endswith("]")
    has_letters = any(character.isalnum() for character in piece)
    return is_special or not has_letters or piece in STOP_WORDS or piece in _CONTRACTED


def _unit(rows: Vectors) -> Vectors:
    lengths = np.sqrt(np.vecdot(rows, rows))
    return rows / np.maximum(lengths, np.finfo(np.float32).tiny)[:, np.newaxis]

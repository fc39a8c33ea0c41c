"""Finding memories that may say the same, without comparing each with each.

MinHash keeps 128 numbers of a text's bigrams; texts that agree in one of 16 bands of eight numbers
are candidates. Of two texts that share 85 % of their bigrams 99.4 % are, of two that share half of
them 6 %. The seed is fixed, so the same memories always have the same candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from engram.care.likeness import JACCARD_MIN, folded, runs

if TYPE_CHECKING:
    from rensa import RMinHash

    Sketch: TypeAlias = RMinHash
    """What is kept of a text to find others like it."""

PERMUTATIONS = 128
BANDS = 16
SEED = 1


class Sketches:
    """The sketches of many texts, each known by a number, and which of them are alike."""

    def __init__(self) -> None:
        from rensa import RMinHashLSH  # noqa: PLC0415 only care of memories needs it

        self._index = RMinHashLSH(threshold=JACCARD_MIN, num_perm=PERMUTATIONS, num_bands=BANDS)

    def add(self, number: int, sketch: Sketch) -> None:
        """Let later texts find this one."""
        self._index.insert(number, sketch)

    def candidates(self, sketch: Sketch) -> Sequence[int]:
        """Return the numbers of the texts that may be alike, in their order."""
        return sorted(set(self._index.query(sketch)))


def sketch(text: str) -> Sketch:
    """Return the sketch of a text, the same in every process."""
    from rensa import RMinHash  # noqa: PLC0415 only care of memories needs it

    made = RMinHash(PERMUTATIONS, SEED)
    made.update(sorted(runs(folded(text))))
    return made


def find_candidates(texts: Iterable[str]) -> list[tuple[int, int]]:
    """Return the pairs of places whose texts may be alike, the earlier place first."""
    sketches = Sketches()
    pairs = list[tuple[int, int]]()
    for place, text in enumerate(texts):
        made = sketch(text)
        pairs.extend((earlier, place) for earlier in sketches.candidates(made))
        sketches.add(place, made)
    return pairs

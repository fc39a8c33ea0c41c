"""BM25 as every store computes it: the weight of a word, its worth in a text, and a query's bound.

A value divided by its query's bound is a share in 0..1 that can be compared between queries and
does not depend on what else was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 1.2
B = 0.75
"""FTS5's own constants, which it does not let anybody change."""

WORTH_MAX = K1 + 1
"""What a word is worth at most in one text, however often it is repeated there."""


def weight(*, texts: int, holding: int) -> float:
    """Return how much a word says that `holding` of `texts` hold: always above zero."""
    return math.log1p((texts - holding + 0.5) / (holding + 0.5))


def worth(*, occurrences: int, length: int, length_average: float) -> float:
    """Return what a word's occurrences are worth in a text of `length` words."""
    saturation = K1 * (1 - B + B * length / length_average)
    return occurrences * WORTH_MAX / (occurrences + saturation)


def worths(
    *, occurrences: NDArray[np.int64], lengths: NDArray[np.int64], length_average: float
) -> NDArray[np.float64]:
    """Return what `worth` does, of many texts at once."""
    saturations = K1 * (1 - B + B * lengths / length_average)
    return occurrences * WORTH_MAX / (occurrences + saturations)


def bound(weighted: Iterable[tuple[int, float]]) -> float:
    """Return what no text can exceed for a query, given each word's repeats and weight."""
    return sum(repeats * word_weight for repeats, word_weight in weighted) * WORTH_MAX

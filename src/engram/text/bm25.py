"""The BM25 formula, the same for every store: weight of a word, worth of its occurrences, upper bound.

A score divided by the upper bound of its query is a share in 0..1 that is comparable between queries
and does not depend on the other candidates.
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
"""The constants that FTS5 hard-codes."""

WORTH_MAX = K1 + 1
"""The limit of a word's worth in one text, however often it is repeated."""


def weight(*, texts: int, holding: int) -> float:
    """Return the inverse document frequency of a word in `holding` of `texts`: always positive."""
    return math.log1p((texts - holding + 0.5) / (holding + 0.5))


def worth(*, occurrences: int, length: int, length_average: float) -> float:
    """Return the saturated term frequency of a word in a text of `length` words."""
    saturation = K1 * (1 - B + B * length / length_average)
    return occurrences * WORTH_MAX / (occurrences + saturation)


def saturations(lengths: NDArray[np.int64], *, length_average: float) -> NDArray[np.float64]:
    """Return what `worths` needs of texts with so many words."""
    return K1 * (1 - B + B * lengths.astype(float) / length_average)


def worths(
    *, occurrences: NDArray[np.float64], saturations: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return `worth` for many words at once, each in the text with that saturation."""
    return occurrences * WORTH_MAX / (occurrences + saturations)


def bound(weighted: Iterable[tuple[int, float]]) -> float:
    """Return the upper bound of a query's score, given the repeats and the weight of each word."""
    return sum(repeats * word_weight for repeats, word_weight in weighted) * WORTH_MAX

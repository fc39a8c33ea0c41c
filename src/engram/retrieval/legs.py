"""Turn what the legs of a search measured into absolute values.

A value depends on the query and the message, not on what else was found: 0 is no sign of relevance,
1 a good one. So scores can be compared between queries, and vectors of two models in one ranking.
The exception is `bm25_of_best`, which belongs to a profile that is defined so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engram.embedding.port import Calibration, CosineScale
from engram.model.search import Candidates
from engram.model.vectors import Tier

LegName = Literal[
    "message_vector",
    "neighbor_vectors",
    "message_words",
    "window_words",
    "cosine",
    "bm25_of_best",
    "recency",
]
Values: TypeAlias = NDArray[np.float64]
"""One for each candidate; NaN where the leg knows nothing of it."""

LEG_VALUE_MAX = 1.5
"""A leg may be better than good, but no leg decides alone."""

MESSAGE_SHARE_GOOD = 0.30
WINDOW_SHARE_GOOD = 0.40

RECENCY_PER_HOUR = 0.01
_LEAST = 1e-9
"""Where no candidate holds a word, none is the better for it."""

_HOUR = 3_600 * 1_000_000
"""In microseconds."""

Calibrations: TypeAlias = Mapping[Tier, Calibration]


def raw_values(candidates: Candidates, *, now: int) -> dict[LegName, Values]:
    """Return what each leg measured; of recency, the hours since a message was said."""
    return {
        "message_vector": candidates.cosine,
        "neighbor_vectors": candidates.cosine_around,
        "message_words": candidates.share_message,
        "window_words": candidates.share_window,
        "cosine": candidates.cosine,
        "bm25_of_best": candidates.share_message,
        "recency": np.maximum(now - candidates.said_at, 0) / _HOUR,
    }


def leg_values(
    raw: Mapping[LegName, Values], *, is_deep: NDArray[np.bool_], calibrations: Calibrations
) -> dict[LegName, Values]:
    """Return each leg's absolute value of each candidate, clipped to 0..LEG_VALUE_MAX."""
    scaled: dict[LegName, Values] = {
        "message_vector": _scaled(
            raw["message_vector"], is_deep, {t: c.message for t, c in calibrations.items()}
        ),
        "neighbor_vectors": _scaled(
            raw["neighbor_vectors"], is_deep, {t: c.neighborhood for t, c in calibrations.items()}
        ),
        "message_words": raw["message_words"] / MESSAGE_SHARE_GOOD,
        "window_words": raw["window_words"] / WINDOW_SHARE_GOOD,
        "cosine": raw["cosine"],
        "bm25_of_best": raw["bm25_of_best"] / max(raw["bm25_of_best"].max(initial=0.0), _LEAST),
        "recency": np.exp(-RECENCY_PER_HOUR * raw["recency"]),
    }
    return {name: np.clip(values, 0.0, LEG_VALUE_MAX) for name, values in scaled.items()}


def _scaled(
    cosines: Values, is_deep: NDArray[np.bool_], scales: Mapping[Tier, CosineScale]
) -> Values:
    """Return cosines on the scale of the model whose they are."""
    out = np.full(len(cosines), np.nan)
    for tier, scale in scales.items():
        rows = is_deep if tier == "deep" else ~is_deep
        out[rows] = (cosines[rows] - scale.offset) / scale.span
    return out

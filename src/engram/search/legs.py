"""Turn what the legs of a search measured into absolute values.

A value depends on the query and the message, not on what else was found: 0 is no sign of relevance,
1 a good one. So scores can be compared between queries, and vectors of two models in one ranking.
The exception is `bm25_of_best`, which belongs to a profile that is defined so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, assert_never

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

_SHARES_GOOD: Mapping[LegName, float] = {"message_words": 0.30, "window_words": 0.40}

RECENCY_PER_HOUR = 0.01
_LEAST = 1e-9
"""Where no candidate holds a word, none is the better for it."""

_HOUR = 3_600 * 1_000_000
"""In microseconds."""

Calibrations: TypeAlias = Mapping[Tier, Calibration]

_TIERS: tuple[Tier, Tier] = ("deep", "instant")
_UNKNOWN = CosineScale(offset=np.nan, span=np.nan)


def raw_values(
    candidates: Candidates, names: Iterable[LegName], *, now: int
) -> dict[LegName, Values]:
    """Return what each of the legs measured; of recency, the hours since a message was said."""
    return {name: _raw(candidates, name, now=now) for name in names}


def leg_values(
    raw: Mapping[LegName, Values], *, is_deep: NDArray[np.bool_], calibrations: Calibrations
) -> dict[LegName, Values]:
    """Return each leg's absolute value of each candidate, clipped to 0..LEG_VALUE_MAX."""
    absolute = [_absolute(name, values, is_deep, calibrations) for name, values in raw.items()]
    clipped = np.minimum(np.maximum(absolute, 0.0), LEG_VALUE_MAX)
    return dict(zip(raw, clipped, strict=True))


def _raw(candidates: Candidates, name: LegName, *, now: int) -> Values:
    match name:
        case "message_vector" | "cosine":
            return candidates.cosine
        case "neighbor_vectors":
            return candidates.cosine_around
        case "message_words" | "bm25_of_best":
            return candidates.share_message
        case "window_words":
            return candidates.share_window
        case "recency":
            return np.maximum(now - candidates.said_at, 0) / _HOUR
        case _:
            assert_never(name)


def _absolute(
    name: LegName, values: Values, is_deep: NDArray[np.bool_], calibrations: Calibrations
) -> Values:
    match name:
        case "message_vector":
            return _scaled(values, is_deep, {t: c.message for t, c in calibrations.items()})
        case "neighbor_vectors":
            return _scaled(values, is_deep, {t: c.neighborhood for t, c in calibrations.items()})
        case "message_words" | "window_words":
            return values / _SHARES_GOOD[name]
        case "cosine":
            return values
        case "bm25_of_best":
            return values / max(values.max(initial=0.0), _LEAST)
        case "recency":
            return np.exp(-RECENCY_PER_HOUR * values)
        case _:
            assert_never(name)


def _scaled(
    cosines: Values, is_deep: NDArray[np.bool_], scales: Mapping[Tier, CosineScale]
) -> Values:
    """Return cosines on the scale of the model whose they are; NaN where nobody knows it."""
    deep, instant = (scales.get(tier, _UNKNOWN) for tier in _TIERS)
    offsets = np.where(is_deep, deep.offset, instant.offset)
    return (cosines - offsets) / np.where(is_deep, deep.span, instant.span)

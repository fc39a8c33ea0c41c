"""Candidates for the tests of the pure steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from engram.clock import to_microseconds
from engram.embedding.port import Calibration, CosineScale
from engram.model.search import Candidates
from engram.model.vectors import Tier
from tests.fakes import SOME_DAY

NOW = to_microseconds(SOME_DAY)
HOUR = 3_600 * 1_000_000
CALIBRATIONS: dict[Tier, Calibration] = {
    "deep": Calibration(CosineScale(0.45, 0.27), CosineScale(0.5, 0.25)),
    "instant": Calibration(CosineScale(0.3, 0.4), CosineScale(0.35, 0.35)),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate."""

    conversation: int
    sequence: int
    message: float = 0.0
    window: float = 0.0
    coverage: float = 0.0
    cosine: float = math.nan
    around: float = math.nan
    tokens: float = math.nan
    is_deep: bool = False
    characters: int = 40
    said_at: int = NOW
    is_document: bool = False
    importance: float = math.nan
    usefulness: float = 0.0

    @property
    def key(self) -> int:
        return self.conversation * 1000 + self.sequence


def table(rows: Iterable[Row]) -> Candidates:
    """Return candidates as columns, sorted by key, as a store does."""
    found = sorted(rows, key=lambda row: row.key)
    return Candidates(
        keys=np.array([row.key for row in found], dtype=np.int64),
        conversations=np.array([row.conversation for row in found], dtype=np.int64),
        sequences=np.array([row.sequence for row in found], dtype=np.int64),
        characters=np.array([row.characters for row in found], dtype=np.int64),
        said_at=np.array([row.said_at for row in found], dtype=np.int64),
        are_documents=np.array([row.is_document for row in found], dtype=np.bool_),
        share_message=np.array([row.message for row in found], dtype=np.float64),
        share_window=np.array([row.window for row in found], dtype=np.float64),
        coverage=np.array([row.coverage for row in found], dtype=np.float64),
        cosine=np.array([row.cosine for row in found], dtype=np.float64),
        cosine_around=np.array([row.around for row in found], dtype=np.float64),
        is_deep=np.array([row.is_deep for row in found], dtype=np.bool_),
        importance=np.array([row.importance for row in found], dtype=np.float64),
        usefulness=np.array([row.usefulness for row in found], dtype=np.float64),
        token_match=np.array([row.tokens for row in found], dtype=np.float64),
    )


@st.composite
def _row(draw: st.DrawFn) -> Row:
    has_vector = draw(st.booleans())
    return Row(
        conversation=draw(st.integers(1, 6)),
        sequence=draw(st.integers(1, 30)),
        message=draw(st.floats(0, 1)),
        window=draw(st.floats(0, 1)),
        cosine=draw(st.floats(-1, 1)) if has_vector else math.nan,
        around=draw(st.floats(-1, 1)) if has_vector else math.nan,
        tokens=draw(st.floats(-1, 1)) if has_vector and draw(st.booleans()) else math.nan,
        is_deep=has_vector and draw(st.booleans()),
        characters=draw(st.one_of(st.integers(0, 400), st.integers(0, 100_000))),
        said_at=NOW - draw(st.integers(-HOUR, 10_000 * HOUR)),
    )


rows = st.lists(_row(), max_size=60, unique_by=lambda row: row.key)

"""The legs of a score: what each scoring method has found, and how much that counts."""

from __future__ import annotations

from engram.model.search import ScoreBreakdown
from engram.model.value import Score, Value


class Leg(Value):
    """One scoring method's part of a score."""

    name: str
    value: Score
    """From 0 to 1."""
    weight: Score
    raw: Score


def legs_of(breakdown: ScoreBreakdown | None) -> tuple[Leg, ...]:
    """Return the parts of an explained score."""
    if breakdown is None:
        return ()
    return tuple(
        Leg(
            name=name,
            value=max(0.0, min(1.0, value)),
            weight=breakdown.weights.get(name, 0.0),
            raw=breakdown.raw.get(name, 0.0),
        )
        for name, value in breakdown.legs.items()
    )

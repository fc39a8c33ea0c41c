"""What a set measured as a whole: the means of its answers, and how fast they came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One question's answer."""

    category: str
    figures: Figures
    """Each in 0..1."""
    tokens: float
    latency_ms: float
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryReport:
    """The questions of one kind."""

    questions: int
    quality: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """The figures of a set."""

    name: str
    questions: int
    messages: int
    messages_per_s: float | None
    """From the first append to the last vector; None when nothing was stored."""
    quality: Figures
    """In per cent."""
    categories: Mapping[str, CategoryReport]
    tokens: float
    """Delivered with an answer, in the mean."""
    latency_p50_ms: float
    latency_p95_ms: float
    degraded: tuple[str, ...]
    """What some search had to do without."""


def report_on(
    name: str, measured: Sequence[Measurement], *, messages: int, seconds: float
) -> SetReport:
    """Return the report on a set of which at least one question was asked."""
    latencies = [each.latency_ms for each in measured]
    return SetReport(
        name=name,
        questions=len(measured),
        messages=messages,
        messages_per_s=messages / seconds if messages and seconds else None,
        quality=quality_of(measured),
        categories=_by_category(measured),
        tokens=fmean(each.tokens for each in measured),
        latency_p50_ms=median(latencies),
        latency_p95_ms=nearest_rank(latencies, share=0.95),
        degraded=tuple(sorted({name for each in measured for name in each.degraded})),
    )


def quality_of(measured: Iterable[Measurement]) -> Figures:
    """Return the mean of each figure in per cent, over the answers that have it."""
    values = dict[str, list[float]]()
    for each in measured:
        for figure, value in each.figures.items():
            values.setdefault(figure, []).append(value)
    return {figure: round(100 * fmean(found), 2) for figure, found in values.items()}


def nearest_rank(values: Iterable[float], *, share: float) -> float:
    """Return the smallest of `values` that at least `share` of them do not exceed."""
    ranked = sorted(values)
    return ranked[max(math.ceil(share * len(ranked)), 1) - 1]


def _by_category(measured: Sequence[Measurement]) -> Mapping[str, CategoryReport]:
    kinds = dict[str, list[Measurement]]()
    for each in measured:
        kinds.setdefault(each.category, []).append(each)
    return {
        kind: CategoryReport(questions=len(kinds[kind]), quality=quality_of(kinds[kind]))
        for kind in sorted(kinds)
    }

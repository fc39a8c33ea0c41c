"""Figures of a whole set: quality, latency, throughput, and regressions against a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeGuard, cast

import orjson

from engram.errors import InvalidRequestError

Figures = Mapping[str, float]

REGRESSION_POINTS_MAX = 1.0
"""How far a figure may fall below its baseline, in percentage points."""

Baseline = Mapping[str, Figures]
"""The quality figures of each set, in per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The figures of one question's answer."""

    category: str
    figures: Figures
    """Each in 0..1."""
    tokens: float
    latency_ms: float
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryReport:
    """The figures of one category of questions."""

    questions: int
    quality: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """The figures of a set."""

    name: str
    questions: int
    messages: int
    messages_per_s: float | None
    """From the first append to the last vector; None if nothing was stored."""
    quality: Figures
    """In per cent."""
    categories: Mapping[str, CategoryReport]
    tokens: float
    """Mean tokens per answer."""
    latency_p50_ms: float
    latency_p95_ms: float
    degraded: tuple[str, ...]
    """The `degraded` entries of all searches."""


def report_on(
    name: str, measured: Sequence[Measurement], *, messages: int, seconds: float
) -> SetReport:
    """Aggregate the measurements of a set; there must be at least one."""
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
    """Return the percentile of `values` at `share`, by the nearest-rank method."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A figure of the baseline and its current value; None if it was not measured."""

    figure: str
    before: float
    now: float | None

    @property
    def points(self) -> float | None:
        """Change in percentage points; negative if the figure fell."""
        return None if self.now is None else round(self.now - self.before, 2)

    @property
    def is_regression(self) -> bool:
        """True if the figure fell by more than is allowed, or was not measured."""
        return self.points is None or self.points < -REGRESSION_POINTS_MAX


def compare(quality: Figures, before: Figures) -> tuple[Change, ...]:
    """Return the change of each figure in the baseline."""
    return tuple(
        Change(figure=figure, before=value, now=quality.get(figure))
        for figure, value in before.items()
    )


def read_baseline(path: Path) -> Baseline:
    """Read a baseline from a file.

    Raises:
        InvalidRequestError: the file cannot be read or is not a baseline; the error names it.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as exc:
        raise InvalidRequestError(f"cannot be read: {exc.strerror}", field=str(path)) from exc
    except orjson.JSONDecodeError as exc:
        message = f"line {exc.lineno} is not JSON: {exc.msg}"
        raise InvalidRequestError(message, field=str(path)) from exc
    if not _is_baseline(content):
        message = "must map each set to an object of numeric figures"
        raise InvalidRequestError(message, field=str(path))
    return content


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline to a file.

    Raises:
        InvalidRequestError: the file cannot be written; the error names it.
    """
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    try:
        path.write_bytes(orjson.dumps(baseline, option=options))
    except OSError as exc:
        raise InvalidRequestError(f"cannot be written: {exc.strerror}", field=str(path)) from exc


def _is_baseline(content: object) -> TypeGuard[Baseline]:
    if not isinstance(content, dict):
        return False
    return all(_is_figures(figures) for figures in cast("dict[str, Any]", content).values())


def _is_figures(content: object) -> bool:
    if not isinstance(content, dict):
        return False
    values = cast("dict[str, Any]", content).values()
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

"""Figures of a whole set: quality, costs, latency, throughput, and regressions against a baseline."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeGuard, cast

import orjson

from engram.errors import InvalidRequestError

Figures = Mapping[str, float]

REGRESSION_POINTS_MAX = 1.0
"""How much worse than its baseline a figure in per cent may be, in percentage points."""

REGRESSION_COST_MAX = 0.05
"""How much higher than its baseline a cost may be, as a share of it."""

COSTS = frozenset({"tokens", "overhead", "foreign_tokens"})
"""Figures in units of their own; a lower one is better."""

LOWER_IS_BETTER = COSTS | {"emptied"}

Baseline = Mapping[str, Figures]
"""The figures of each set: quality in per cent, and costs."""

Curves = Mapping[str, Sequence[float]]
"""Shares of the evidence at growing numbers of tokens, by the form of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The figures of one question's answer."""

    category: str
    figures: Figures
    """Each in 0..1."""
    tokens: float
    """Of the ranked answer."""
    latency_ms: float
    degraded: tuple[str, ...] = ()
    sent_tokens: int = 0
    """Of the text that a model is sent."""
    overhead: float | None = None
    """Tokens sent for each of stored text; None if none was sent."""
    curves: Curves = field(default_factory=dict[str, Sequence[float]])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """The figures of some of the questions."""

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
    costs: Figures
    """Of the text that a model is sent, each in its unit."""
    categories: Mapping[str, GroupReport]
    labels: Mapping[str, Mapping[str, GroupReport]]
    """By label and its value."""
    curves: Curves
    """In per cent."""
    tokens: float
    """Mean tokens of a ranked answer."""
    latency_p50_ms: float
    latency_p95_ms: float
    degraded: tuple[str, ...]
    """The `degraded` entries of all searches."""

    @property
    def figures(self) -> Figures:
        """The figures that are compared with a baseline."""
        return {**self.quality, **self.costs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """The answer to a question about another haystack."""

    tokens: int
    is_silent: bool


def report_on(
    name: str,
    measured: Sequence[Measurement],
    *,
    foreign: Sequence[Foreign] = (),
    messages: int,
    seconds: float,
) -> SetReport:
    """Aggregate the measurements of a set; there must be at least one."""
    latencies = [each.latency_ms for each in measured]
    return SetReport(
        name=name,
        questions=len(measured),
        messages=messages,
        messages_per_s=messages / seconds if messages and seconds else None,
        quality={**quality_of(measured), **_silence_of(foreign)},
        costs=_costs_of(measured, foreign),
        categories=_by(measured, lambda each: each.category),
        labels=_by_label(measured),
        curves=_curves_of(measured),
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


def _silence_of(foreign: Sequence[Foreign]) -> Figures:
    if not foreign:
        return {}
    return {"silent": round(100 * fmean(each.is_silent for each in foreign), 2)}


def _costs_of(measured: Sequence[Measurement], foreign: Sequence[Foreign]) -> Figures:
    overheads = [each.overhead for each in measured if each.overhead is not None]
    costs = {"tokens": fmean(each.sent_tokens for each in measured)}
    if overheads:
        # The median, because an answer of one short message costs many times its text.
        costs["overhead"] = median(overheads)
    if foreign:
        costs["foreign_tokens"] = fmean(each.tokens for each in foreign)
    return {name: round(cost, 2) for name, cost in costs.items()}


def _curves_of(measured: Sequence[Measurement]) -> Curves:
    curves = dict[str, list[Sequence[float]]]()
    for each in measured:
        for name, curve in each.curves.items():
            curves.setdefault(name, []).append(curve)
    return {
        name: [round(100 * fmean(points), 2) for points in zip(*some, strict=True)]
        for name, some in curves.items()
    }


def _by_label(measured: Sequence[Measurement]) -> Mapping[str, Mapping[str, GroupReport]]:
    names = dict.fromkeys(name for each in measured for name in each.labels)
    return {name: _by(measured, partial(_label_of, name)) for name in names}


def _label_of(name: str, measured: Measurement) -> str:
    return measured.labels.get(name, "?")


def _by(
    measured: Sequence[Measurement], name_of: Callable[[Measurement], str]
) -> Mapping[str, GroupReport]:
    groups = dict[str, list[Measurement]]()
    for each in measured:
        groups.setdefault(name_of(each), []).append(each)
    return {
        name: GroupReport(questions=len(groups[name]), quality=quality_of(groups[name]))
        for name in sorted(groups, key=_by_number)
    }


def _by_number(name: str) -> tuple[int, str]:
    """Sort key: the number that a name begins with, then the name."""
    number = re.match(r"\d+", name, re.ASCII)
    return int(number[0]) if number else 0, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A figure of the baseline and its current value; None if it was not measured."""

    figure: str
    before: float
    now: float | None

    @property
    def points(self) -> float | None:
        """Change in percentage points, or in the unit of a cost; negative if the figure fell."""
        return None if self.now is None else round(self.now - self.before, 2)

    @property
    def is_regression(self) -> bool:
        """True if the figure became worse by more than is allowed, or was not measured."""
        if self.points is None:
            return True
        worse = self.points if self.figure in LOWER_IS_BETTER else -self.points
        return worse > self._allowed

    @property
    def _allowed(self) -> float:
        if self.figure in COSTS:
            return round(REGRESSION_COST_MAX * self.before, 2)
        return REGRESSION_POINTS_MAX


def compare(figures: Figures, before: Figures) -> tuple[Change, ...]:
    """Return the change of each figure in the baseline."""
    return tuple(
        Change(figure=figure, before=value, now=figures.get(figure))
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

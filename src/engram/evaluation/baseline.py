"""The figures that were reached before, and what has become worse since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, cast

import orjson

from engram.errors import InvalidRequestError
from engram.evaluation.report import Figures

REGRESSION_POINTS_MAX = 1.0
"""How far a figure may fall below its baseline, in points of per cent."""

Baseline = Mapping[str, Figures]
"""The quality figures of each set, in per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A figure of the baseline, and what it is now; None when it was not measured."""

    figure: str
    before: float
    now: float | None

    @property
    def points(self) -> float | None:
        """By how much it is higher."""
        return None if self.now is None else round(self.now - self.before, 2)

    @property
    def is_regression(self) -> bool:
        """Whether it fell by more than is allowed, or is gone."""
        return self.points is None or self.points < -REGRESSION_POINTS_MAX


def compare(quality: Figures, before: Figures) -> tuple[Change, ...]:
    """Return what became of each figure of the baseline."""
    return tuple(
        Change(figure=figure, before=value, now=quality.get(figure))
        for figure, value in before.items()
    )


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file.

    Raises:
        InvalidRequestError: it cannot be read, or is no baseline; names the file.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as exc:
        raise InvalidRequestError(f"cannot be read: {exc.strerror}", field=str(path)) from exc
    except orjson.JSONDecodeError as exc:
        message = f"line {exc.lineno} is not JSON: {exc.msg}"
        raise InvalidRequestError(message, field=str(path)) from exc
    if not _is_baseline(content):
        message = "must hold for each set an object of figures, which are numbers"
        raise InvalidRequestError(message, field=str(path))
    return content


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline to a file.

    Raises:
        InvalidRequestError: it cannot be written; names the file.
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

"""What an evaluation found, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engram.transport.cli.degraded import explain_degraded
from engram.transport.cli.output import paint, say, show_table
from engram.transport.cli.visible import visible_line
from engram_eval.report import REGRESSION_POINTS_MAX, Baseline, Change, SetReport, compare

HEADS = ("FIGURE", "NOW", "BASELINE", "CHANGE")
WIDTH = 9
"""Of a column of numbers, so that they stand under each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A set's report, and what became of the figures in its baseline."""

    report: SetReport
    is_compared: bool
    changes: tuple[Change, ...] | None
    """None when there is no baseline for it."""

    @classmethod
    def on(cls, report: SetReport, baseline: Baseline | None) -> Verdict:
        """Return the verdict on a report; without a baseline nothing is compared."""
        before = None if baseline is None else baseline.get(report.name)
        changes = None if before is None else compare(report.quality, before)
        return cls(report=report, is_compared=baseline is not None, changes=changes)

    @property
    def regressions(self) -> tuple[str, ...]:
        """The figures that fell by more than is allowed."""
        return tuple(change.figure for change in self.changes or () if change.is_regression)

    def as_json(self) -> dict[str, Any]:
        """Return it as programs read it."""
        report, speed = self.report, self.report.messages_per_s
        return {
            "set": report.name,
            "questions": report.questions,
            "messages": report.messages,
            "messages_per_s": None if speed is None else round(speed, 1),
            "quality": report.quality,
            "tokens": round(report.tokens, 1),
            "search_p50_ms": round(report.latency_p50_ms, 2),
            "search_p95_ms": round(report.latency_p95_ms, 2),
            "degraded": report.degraded,
            "categories": {
                name: {"questions": kind.questions, "quality": kind.quality}
                for name, kind in report.categories.items()
            },
            "baseline": {change.figure: change.before for change in self.changes}
            if self.changes is not None
            else None,
            "regressions": self.regressions,
        }


def print_verdict(verdict: Verdict) -> None:
    """Print a set's figures, beside its baseline where there is one."""
    name = visible_line(verdict.report.name)
    say(paint(name, bold=True))
    rows = [HEADS, *_speed_rows(verdict.report), *_quality_rows(verdict)]
    columns = 2 if verdict.changes is None else len(HEADS)
    heads, *rest = ((row[0], *(cell.rjust(WIDTH) for cell in row[1:columns])) for row in rows)
    show_table(heads, rest)
    for degraded in verdict.report.degraded:
        say(explain_degraded(degraded))
    if verdict.is_compared and verdict.changes is None:
        say(f"{name} is not in the baseline; --update adds it")
    if verdict.regressions:
        fallen = ", ".join(verdict.regressions)
        allowed = f"more than {REGRESSION_POINTS_MAX:g} point below the baseline"
        say(paint(f"{allowed}: {visible_line(fallen)}", fg="red"))
    say()


Cells = tuple[str, str, str, str]


def _speed_rows(report: SetReport) -> Iterator[Cells]:
    speed = report.messages_per_s
    yield "questions", f"{report.questions:,}", "", ""
    yield "messages", f"{report.messages:,}", "", ""
    yield "messages/s", "-" if speed is None else f"{speed:,.1f}", "", ""
    yield "tokens delivered", f"{report.tokens:,.0f}", "", ""
    yield "p50 ms", f"{report.latency_p50_ms:,.2f}", "", ""
    yield "p95 ms", f"{report.latency_p95_ms:,.2f}", "", ""


def _quality_rows(verdict: Verdict) -> Iterator[Cells]:
    quality = verdict.report.quality
    changes = {change.figure: change for change in verdict.changes or ()}
    for figure in sorted(quality.keys() | changes.keys(), key=_order):
        change, now = changes.get(figure), quality.get(figure)
        yield (
            figure,
            "-" if now is None else f"{now:.2f}",
            "" if change is None else f"{change.before:.2f}",
            "" if change is None or change.points is None else f"{change.points:+.2f}",
        )


def _order(figure: str) -> tuple[str, int]:
    """Order figures by what they are and then by their depth, as numbers."""
    kind, _, depth = figure.partition("@")
    return kind, int(depth) if depth.isdigit() else 0

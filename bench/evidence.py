"""Renew the figures and the picture of docs/answers.md from the last `engram eval`.

    make eval SETS="needles locomo realtalk longmemeval_pool" ARGS="--output bench/results/eval.json"
    python -m bench.evidence [FILE]

FILE is what `engram eval` wrote with --output, bench/results/eval.json unless given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.chart import EvidenceCurves, draw_evidence
from bench.figures import RESULTS
from bench.publish import DOCS, between_marks

PAGE = DOCS / "answers.md"
CHART = DOCS / "evidence.png"
MEASURED = RESULTS / "eval.json"
BEGIN = "<!-- begin figures: make answers -->"
END = "<!-- end figures -->"

DRAWN = ("locomo.dev", "realtalk.dev", "longmemeval_pool.dev")
"""The sets of the picture: two kinds of chats, and chats with an assistant."""

COLUMNS = (
    ("tokens", "tokens"),
    ("overhead", "overhead"),
    ("paid@250", "evidence in 250"),
    ("paid@500", "in 500"),
    ("paid@1000", "in 1,000"),
    ("answer@1000", "answer in 1,000"),
    ("delivered", "verbatim"),
    ("emptied", "emptied"),
    ("silent", "silent on foreign"),
)

Report = Mapping[str, Any]


def main() -> int:
    """Return the exit status."""
    measured = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    if not measured.exists():
        sys.exit(f"{measured} is missing: write it with `make eval ARGS=--output={measured}`")
    reports: Sequence[Report] = json.loads(measured.read_bytes())["sets"]
    curves = [curves_of(report) for report in reports if report["set"] in DRAWN]
    if not curves:
        sys.exit(f"{measured} has none of {', '.join(DRAWN)}")
    PAGE.write_text(with_figures(PAGE.read_text(), reports))
    draw_evidence(curves, CHART)
    print(f"renewed {PAGE.name} and {CHART.name}")
    return 0


def curves_of(report: Report) -> EvidenceCurves:
    """Return the curves of a set."""
    curves = report["curves"]
    return EvidenceCurves(
        name=report["set"], tokens=curves["at"], answer=curves["answer"], dump=curves["dump"]
    )


def with_figures(page: str, reports: Sequence[Report]) -> str:
    """Return the page with the figures of these sets between its marks."""
    return between_marks(page, "\n".join(_rows(reports)), begin=BEGIN, end=END)


def _rows(reports: Sequence[Report]) -> Iterator[str]:
    yield "| set | " + " | ".join(title for _, title in COLUMNS) + " |"
    yield "| --- |" + " ---: |" * len(COLUMNS)
    for report in reports:
        figures = {**report["quality"], **report["costs"]}
        cells = (_cell(name, figures.get(name)) for name, _ in COLUMNS)
        yield f"| {report['set']} | " + " | ".join(cells) + " |"


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name == "overhead":
        return f"{value:.2f}"
    return f"{value:,.0f}" if name == "tokens" else f"{value:.1f} %"


if __name__ == "__main__":
    sys.exit(main())

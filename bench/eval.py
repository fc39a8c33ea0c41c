"""Measure retrieval quality with the evaluation sets and compare it with the committed baseline.

    python -m bench.eval [--data DIRECTORY] [--update] [--max-questions N] [SET …]

A server with an empty store is started for it. `DIRECTORY` holds `score.py` and `SET.dev.jsonl.gz`.
A quality figure more than a point below the baseline ends it with 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from tools.server import running_server

ROOT = Path(__file__).parents[1]
BASELINE = Path(__file__).with_name("baseline.json")
RESULTS = Path(__file__).with_name("results") / "eval.json"
DEFAULT_DATA = ROOT.parent / "shared" / "eval"
DEFAULT_SETS = ("locomo", "realtalk")
REGRESSION_POINTS_MAX = 1.0
QUALITY = ("evidence@", "session_", "message_mrr")

Figures = dict[str, float]


def main() -> int:
    """Return the exit status."""
    arguments = _parse()
    reports = _score(arguments.data, arguments.sets, max_questions=arguments.max_questions)
    measured = {report["set"]: quality(report) for report in reports}
    if arguments.update:
        BASELINE.write_text(json.dumps(_baseline() | measured, indent=2, sort_keys=True) + "\n")
        return 0
    if arguments.max_questions:
        print("Part of the questions: not compared with the baseline.")
        return 0
    return _compare(measured)


def quality(report: dict[str, Any]) -> Figures:
    """Return a report's quality figures in per cent."""
    return {
        name: round(100 * value, 2)
        for name, value in report["ALL"].items()
        if name.startswith(QUALITY)
    }


def regressions(measured: Figures, baseline: Figures) -> list[str]:
    """Return a line for each figure that is lower than the baseline by more than is allowed."""
    return [
        f"{name}: {found:.2f}, baseline {value:.2f}"
        for name, value in baseline.items()
        if (found := measured.get(name, 0.0)) < value - REGRESSION_POINTS_MAX
    ]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make eval", description=__doc__)
    parser.add_argument("sets", nargs="*", default=DEFAULT_SETS, help="names of evaluation sets")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--update", action="store_true", help="make this the new baseline")
    parser.add_argument("--max-questions", type=int, default=0, help="ask only so many of a set")
    return parser.parse_args()


def _score(data: Path, sets: list[str], *, max_questions: int) -> list[dict[str, Any]]:
    files = [data / f"{name}.dev.jsonl.gz" for name in sets]
    if missing := [path for path in (data / "score.py", *files) if not path.exists()]:
        sys.exit(f"Not there: {', '.join(map(str, missing))}. Give the directory with --data.")
    RESULTS.parent.mkdir(exist_ok=True)
    with running_server() as server:
        subprocess.run(
            [
                *(sys.executable, data / "score.py", "--url", server.url),
                *("--admin-token", server.admin_token, "--max-questions", str(max_questions)),
                *("--json", RESULTS, *files),
            ],
            check=True,
        )
    return json.loads(RESULTS.read_bytes())


def _baseline() -> dict[str, Figures]:
    return cast("dict[str, Figures]", json.loads(BASELINE.read_bytes()))


def _compare(measured: dict[str, Figures]) -> int:
    baseline, failures = _baseline(), 0
    for name, figures in measured.items():
        if name not in baseline:
            print(f"{name}: no baseline yet; write one with --update")
            continue
        lines = regressions(figures, baseline[name])
        failures += len(lines)
        print(
            f"{name}: {'REGRESSION' if lines else 'no figure is below the baseline'}",
            *lines,
            sep="\n  ",
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

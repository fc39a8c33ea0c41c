"""Measure retrieval quality as a release is judged: `score.py` of the data against a running server.

    python -m bench.score [--data DIRECTORY] [--max-questions N] SET …

A server with an empty store is started for it. `DIRECTORY` holds `score.py` and `SET.dev.jsonl.gz`.
A quality figure more than a point below the baseline ends it with 1. `engram eval` measures the same
in one process and renews the baseline.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engram import limits
from engram.errors import InvalidRequestError
from engram_eval.reading import find_sets
from engram_eval.report import Figures, compare, read_baseline
from tools.server import running_server

BASELINE = Path(__file__).with_name("baseline.json")
RESULTS = Path(__file__).with_name("results") / "score.json"
DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "eval"
SEARCH = (
    *("--limit", str(limits.SEARCH_RESULTS_MAX)),
    *("--arguments", '{"min_score": 0}'),
    "--asked-at",
)
"""All places of the ranking, as far as the token budget goes, as `engram eval` asks for them."""

QUALITY = ("evidence@", "session_", "message_mrr")


def main() -> int:
    """Return the exit status."""
    arguments = _parse()
    try:
        reports = _score(arguments.data, arguments.sets, max_questions=arguments.max_questions)
        if arguments.max_questions:
            print("A part of the questions is not compared with the baseline.")
            return 0
        return _compare({report["set"]: quality(report) for report in reports})
    except InvalidRequestError as exc:
        sys.exit(str(exc))


def quality(report: Mapping[str, Any]) -> Figures:
    """Return a report's quality figures in per cent."""
    return {
        name: round(100 * value, 2)
        for name, value in report["ALL"].items()
        if name.startswith(QUALITY)
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make score", description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="SET", help="names of evaluation sets")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--max-questions", type=int, default=0, help="ask only so many of a set")
    return parser.parse_args()


def _score(data: Path, sets: Sequence[str], *, max_questions: int) -> Sequence[Mapping[str, Any]]:
    files, script = find_sets(sets, directory=data), data / "score.py"
    if not script.is_file():
        raise InvalidRequestError("is not there", field=str(script))
    RESULTS.parent.mkdir(exist_ok=True)
    with running_server() as server:
        ended = subprocess.run(
            [
                *(sys.executable, script, "--url", server.url),
                *(f"--admin-token={server.admin_token}", "--max-questions", str(max_questions)),
                *(*SEARCH, "--json", RESULTS, *files),
            ],
            check=False,
        )
    if ended.returncode:
        # It has said why.
        sys.exit(ended.returncode)
    return json.loads(RESULTS.read_bytes())


def _compare(measured: Mapping[str, Figures]) -> int:
    baseline, failures = read_baseline(BASELINE), 0
    for name, figures in measured.items():
        if name not in baseline:
            print(f"{name}: not in the baseline")
            continue
        before = {each: value for each, value in baseline[name].items() if each.startswith(QUALITY)}
        fallen = [change for change in compare(figures, before) if change.is_regression]
        failures += len(fallen)
        print(f"{name}: {'REGRESSION' if fallen else 'no figure fell by more than a point'}")
        for change in fallen:
            print(f"  {change.figure}: {change.now}, baseline {change.before}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

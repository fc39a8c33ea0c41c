"""The way a release is judged: through a server, by the script that comes with the data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.score import DEFAULT_DATA, QUALITY, SEARCH, quality
from engram_eval.report import Figures
from tests.cli.commands import inherited_environment
from tests.evaluation.sets import SMALL_SET, SMALL_SET_FIGURES, write_set
from tools.server import running_server

SCRIPT = DEFAULT_DATA / "score.py"
PAID = DEFAULT_DATA / "paid.py"


def test_speed_is_not_compared_with_the_baseline() -> None:
    report = {"search_p50_ms": 3.1, "ALL": {"n": 10, "evidence@500": 0.8123, "message_mrr": 0.5}}

    assert quality(report) == {"evidence@500": 81.23, "message_mrr": 50.0}


def run_script(script: Path, path: Path, *arguments: str, results: Path) -> dict[str, Any]:
    """Return the report of a script of the data about a server."""
    with running_server(EMBEDDER="hash") as server:
        subprocess.run(
            [
                *(sys.executable, script, "--url", server.url),
                *(f"--admin-token={server.admin_token}", "--json", results, *arguments, path),
            ],
            stdout=subprocess.DEVNULL,
            timeout=60,
            check=True,
        )
    return json.loads(results.read_bytes())[0]


def scored_over_http(path: Path, *, results: Path) -> Figures:
    """Return the figures that the data's own script gives a server."""
    return quality(run_script(SCRIPT, path, *SEARCH, results=results))


def measured_in_process(path: Path, *, results: Path) -> Figures:
    """Return the figures of `engram eval`."""
    subprocess.run(
        [sys.executable, "-m", "engram", "eval", path, "--output", results],
        env={**inherited_environment(), "ENGRAM_EMBEDDER": "hash"},
        stdout=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
    return json.loads(results.read_bytes())["sets"][0]["quality"]


def scored_in_process(path: Path, *, results: Path) -> Figures:
    """Return those figures of `engram eval` that the script gives too."""
    figures = measured_in_process(path, results=results)
    return {name: value for name, value in figures.items() if name.startswith(QUALITY)}


def test_both_ways_give_the_figures_counted_by_hand(tmp_path: Path) -> None:
    path = write_set(tmp_path / "small.jsonl.gz")
    # The data lie beside the repository and are not everywhere; `engram eval` is.
    ways = [scored_in_process, scored_over_http] if SCRIPT.exists() else [scored_in_process]

    figures = [way(path, results=tmp_path / "results.json") for way in ways]

    assert figures == [SMALL_SET_FIGURES] * len(ways)


@pytest.mark.skipif(not PAID.exists(), reason="the data and their scripts are not everywhere")
def test_what_is_sent_is_worth_the_same_over_mcp(tmp_path: Path) -> None:
    # The script asks every question at the end.
    lines = [{name: line[name] for name in line if name != "until"} for line in SMALL_SET]
    path, results = write_set(tmp_path / "small.jsonl.gz", lines), tmp_path / "results.json"

    report = run_script(PAID, path, "--view", "text", results=results)

    figures = measured_in_process(path, results=results)
    compared = [name for name in report if name.startswith(("paid@", "answer@", "silent"))]
    assert {"paid@500", "answer@500", "silent"} <= set(compared)
    assert {name: figures[name] for name in compared if name in figures} == {
        name: round(100 * report[name], 2) for name in compared if name in figures
    }

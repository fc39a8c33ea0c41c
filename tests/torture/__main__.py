"""`python -m tests.torture`: processes on one store, killed, stopped, misled and cut off, and checked.

Exits with 1 if the history breaks a rule, which is then saved.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.torture.history import save
from tests.torture.run import Plan, Report, postgres_house, sqlite_house, torture

DISK_BYTES = 512 << 20
"""Of the file system that a store gets for itself, in memory."""

_SHOWN_MAX = 10
_CALL_SHOWN_MAX = 500


def main() -> int:
    """Run, print the summary and return the exit code."""
    options = _options()
    if options.store == "sqlite" and options.disk is None:
        _move_to_a_disk_of_its_own()
    numbers = (options.servers, options.sessions, options.clients)
    plan = Plan(options.seed, options.minutes, *numbers, options.embedder)
    with tempfile.TemporaryDirectory(prefix="engram-torture-") as place:
        house = (
            postgres_house(plan, Path(place))
            if options.store == "postgres"
            else sqlite_house(plan, Path(place), options.disk)
        )
        with house as furnished:
            report = torture(furnished, plan)
    print(summary(options.store, plan, report))
    path = options.histories / f"torture-{options.store}-{plan.seed}.jsonl"
    save(report.calls, path)
    if report.is_good:
        return 0
    print(complaint(report), f"The history is in {path}; seed {plan.seed}.", sep="\n")
    return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--clients", type=int, default=3, help="of each tenant without processes")
    parser.add_argument("--embedder", default="hash", help="a setting of ENGRAM_EMBEDDER")
    parser.add_argument("--histories", type=Path, default=Path("bench/results"))
    parser.add_argument("--disk", type=Path, help="a file system for the store that may be filled")
    return parser.parse_args()


def _move_to_a_disk_of_its_own() -> None:
    """Begin again where the store has a file system of bounded size, if bubblewrap can make one."""
    bubblewrap = shutil.which("bwrap") or shutil.which("bwrap", path=Path(sys.executable).parent)
    if bubblewrap is None:
        print("Without bubblewrap no disk is filled.", flush=True)
        return
    disk = tempfile.mkdtemp(prefix="engram-disk-")
    within = ("--dev-bind", "/", "/", "--size", str(DISK_BYTES), "--tmpfs", disk)
    again = (sys.executable, "-m", "tests.torture", *sys.argv[1:], "--disk", disk)
    os.execv(bubblewrap, (bubblewrap, "--die-with-parent", *within, "--", *again))  # noqa: S606 our own program


def summary(store: str, plan: Plan, report: Report) -> str:
    """Return the table of a run."""
    calls = report.calls
    outcomes = Counter((call.kind, call.outcome) for call in calls)
    kinds = [
        (kind, *(f"{outcomes[kind, each]:,}" for each in ("ok", "failed", "unknown")))
        for kind in ("create", "append", "read", "search", "delete")
    ]
    totals = [
        f"{sum(call.outcome == each for call in calls):,}" for each in ("ok", "failed", "unknown")
    ]
    events = Counter(event.kind for event in report.events)
    broken = Counter(violation.rule for violation in report.violations)
    codes = Counter(call.code or "not answered" for call in calls if call.outcome != "ok")
    return "\n".join(
        (
            f"{store}, embedder {plan.embedder}, {plan.minutes:g} minutes, seed {plan.seed}: {len(calls):,} calls",
            _table(("calls", "ok", "failed", "unknown"), [*kinds, ("all", *totals)]),
            _counts("nemesis events", events),
            _counts("calls without success", codes),
            _counts("violations", broken + Counter({"doctor": len(report.findings)})),
        )
    )


def complaint(report: Report) -> str:
    """Return the first violations with the calls that show them, and the findings."""
    lines = [f"doctor: {finding}" for finding in report.findings]
    for violation in report.violations[:_SHOWN_MAX]:
        lines += [
            f"{violation.rule}: {violation.said}",
            *(f"  {call}"[:_CALL_SHOWN_MAX] for call in violation.calls),
        ]
    return "\n".join(lines)


def _counts(head: str, counts: Counter[str]) -> str:
    rows = [(kind, f"{count:,}") for kind, count in sorted(counts.items()) if count]
    return _table((head, "count"), rows or [("none", "0")])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())

"""Runs seeds until one fails: `make simulate SEED=… SEEDS=… STEPS=…`."""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import sys
import time

from tests.simulation.simulation import STEPS, FailedRunError, repeatable_interpreter, run_seed

_LOG_LINES = 60
"""Shown of the history of a failure."""


def main() -> int:
    """Run seeds; return 1 at the first failure."""
    options = _parse()
    _fix_hashes()
    seeds = (
        itertools.count(options.seed)
        if options.seeds is None
        else range(options.seed, options.seed + options.seeds)
    )
    with repeatable_interpreter():
        return _run(seeds, steps=options.steps)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="the first seed")
    parser.add_argument("--seeds", type=int, help="how many; without it until one fails")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each seed, before it settles")
    return parser.parse_args()


def _fix_hashes() -> None:
    """Start again with the same hashes in every run: the order of a set is part of the history."""
    if sys.flags.hash_randomization:
        arguments = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, arguments, os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606, TID251


def _run(seeds: range | itertools.count[int], *, steps: int) -> int:
    began, done, operations, faults, count = time.monotonic(), 0, 0, 0, 0
    for seed in seeds:
        try:
            report = run_seed(seed, steps=steps)
        except FailedRunError as exc:
            _explain(seed, steps, exc)
            return 1
        done, operations = done + report.steps, operations + report.operations
        faults, count = faults + report.faults, count + 1
        rate = done / (time.monotonic() - began)
        sys.stdout.write(
            f"\rseed {seed}: {count:,} seeds, {done:,} steps, {operations:,} operations, "
            f"{faults:,} faults, {rate:,.0f} steps/s, digest {report.digest}"
        )
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def _explain(seed: int, steps: int, failure: FailedRunError) -> None:
    """Print the shortest history that fails, and how to see it again."""
    sys.stderr.write(f"\n{failure}\nlooking for a shorter history …\n")
    low, shortest = 0, failure
    while steps - low > max(1, steps // 50):
        middle = (low + steps) // 2
        try:
            run_seed(seed, steps=middle, keeps_log=True)
        except FailedRunError as exc:
            steps, shortest = middle, exc
        else:
            low = middle
    sys.stderr.write("\n".join([*shortest.log[-_LOG_LINES:], str(shortest), ""]))


if __name__ == "__main__":
    sys.exit(main())

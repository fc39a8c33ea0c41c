"""`python -m tests.fuzz`: change kept inputs at random and give them to every reader of bytes.

Exits with 1 if a reader breaks the law; the input is then saved, to be kept in `corpus` once it is mended.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import traceback
from pathlib import Path
from random import Random
from time import monotonic

from tests.fuzz.targets import TARGETS, Target, mutated
from tests.torture.history import digest

ROUND = 200
"""Inputs for one reader before it is the turn of the next."""


def main() -> int:
    """Fuzz for as long as asked; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--found", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    tried, slowest, broken = dict.fromkeys(TARGETS, 0), dict.fromkeys(TARGETS, 0.0), 0
    until = monotonic() + options.minutes * 60
    turn = 0
    while monotonic() < until:
        for target in TARGETS.values():
            random = Random(f"{options.seed}/{target.name}/{turn}")  # noqa: S311 no secret
            seconds, failed = _take_turn(target, random, options.found)
            tried[target.name] += ROUND
            slowest[target.name] = max(slowest[target.name], seconds)
            broken += failed
        turn += 1
    print(
        f"seed {options.seed}: {sum(tried.values()):,} inputs, {broken} broke the law", flush=True
    )
    print("\n| reader | inputs | slowest, ms |\n| --- | --- | --- |")
    for name, count in tried.items():
        print(f"| {name} | {count:,} | {slowest[name] * 1_000:.1f} |")
    return 1 if broken else 0


def _take_turn(target: Target, random: Random, found: Path) -> tuple[float, int]:
    """Return the processor time of the slowest input, and how many broke the law."""
    seeds, slowest, broken = target.seeds(), 0.0, 0
    for _ in range(ROUND):
        data = mutated(random, seeds)
        try:
            slowest = max(slowest, target.hold(data))
        except Exception:  # noqa: BLE001 whatever a reader raises is what is looked for
            broken += 1
            found.mkdir(parents=True, exist_ok=True)
            path = found / f"fuzz-{target.name}-{digest(data.hex())[:12]}"
            path.write_bytes(data)
            print(f"{path}:\n{traceback.format_exc()}", flush=True)
    return slowest, broken


if __name__ == "__main__":
    sys.exit(main())

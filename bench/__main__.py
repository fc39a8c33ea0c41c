"""Run the benchmarks and print each figure beside its floor.

    python -m bench [--quick] [NAME …]

A figure outside its bound ends it with 1.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import cast

from bench.figures import Figure, save

BENCHMARKS = (
    "start",
    "appends",
    "indexing",
    "importing",
    "search",
    "meaning",
    "vectors",
    "concurrency",
    "memory",
    "documents",
    "planted",
    "size",
    "notes",
    "paraphrases",
    "postgres",
    "spread",
    "hostile",
)

Measure = Callable[..., Sequence[Figure]]


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        default=BENCHMARKS,
        metavar="NAME",
        help=", ".join(BENCHMARKS),
    )
    parser.add_argument("--quick", action="store_true", help="smaller stores, rougher figures")
    arguments = parser.parse_args()
    missed = 0
    for name in arguments.names:
        measure = cast("Measure", importlib.import_module(f"bench.{name}").measure)
        figures = measure(quick=arguments.quick)
        save(figures, name=name, quick=arguments.quick)
        for figure in figures:
            print(figure.line(), flush=True)
            missed += not figure.is_reached
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

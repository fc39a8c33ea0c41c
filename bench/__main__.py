"""Run the benchmarks and print each figure beside its floor.

    python -m bench [--quick] [NAME …]

A figure outside its bound ends it with 1.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from bench.figures import Figure, save

BENCHMARKS = (
    "start",
    "hooks",
    "appends",
    "indexing",
    "importing",
    "sources",
    "search",
    "words",
    "meaning",
    "vectors",
    "concurrency",
    "memory",
    "documents",
    "planted",
    "size",
    "transfer",
    "notes",
    "paraphrases",
    "postgres",
    "spread",
    "idle",
    "model",
    "hostile",
    "page",
)

PARTS: Mapping[str, Sequence[str]] = {
    "transfer": ("exports", "backup"),
    "postgres": ("postgres", "nearest"),
    "model": ("model_points",),
}
"""The modules of benchmarks that have several."""

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
        figures = _measure(name, quick=arguments.quick)
        save(figures, name=name, quick=arguments.quick)
        for figure in figures:
            print(figure.line(), flush=True)
            missed += not figure.is_reached
    return 1 if missed else 0


def _measure(name: str, *, quick: bool) -> list[Figure]:
    figures = list[Figure]()
    for part in PARTS.get(name, (name,)):
        measure = cast("Measure", importlib.import_module(f"bench.{part}").measure)
        figures.extend(measure(quick=quick))
    return figures


if __name__ == "__main__":
    sys.exit(main())

"""Measure which pairs of texts `memory_consolidate` would merge, on labelled pairs.

    python -m bench.duplicates [--data DIRECTORY] [--embedder CHOICE] [SET …]

`DIRECTORY` holds `SET.dev.jsonl.gz` with lines of type `pair`. For several thresholds it prints how
many of the merged pairs are duplicates (precision) and how many duplicates are merged (recall).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.care.duplicates import find_candidates
from engram.care.likeness import (
    JACCARD_MIN,
    JACCARD_WEIGHT,
    Likeness,
    compare_letters,
    folded,
    jaccard,
    runs,
)
from engram.clock import SystemClock
from engram.ingest.compare import compare_meanings
from engram.settings import load_settings
from engram.wiring import build_embedders

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "eval"
SETS = ("mrpc", "stsb")
THRESHOLDS = (0.50, 0.60, 0.70, 0.80, 0.85, 0.90, 0.95)
TOGETHER = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, and whether people say that they mean the same."""

    first: str
    second: str
    is_duplicate: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair and what speaks for it."""

    pair: Pair
    is_candidate: bool
    jaccard: float
    likeness: Likeness


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS, metavar="SET")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--embedder", default="local")
    arguments = parser.parse_args()
    for name in arguments.sets:
        pairs = _read(arguments.data / f"{name}.dev.jsonl.gz")
        judged = asyncio.run(_judge(pairs, embedder=arguments.embedder))
        _print_table(name, judged)


def _read(path: Path) -> list[Pair]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Pair(row["a"], row["b"], row["duplicate"]) for row in rows if row["type"] == "pair"]


async def _judge(pairs: Sequence[Pair], *, embedder: str) -> list[Judged]:
    cosines = await _cosines(pairs, embedder=embedder)
    return [_judged(pair, cosine) for pair, cosine in zip(pairs, cosines, strict=True)]


async def _cosines(pairs: Sequence[Pair], *, embedder: str) -> list[float | None]:
    settings = load_settings({"embedder": embedder})
    tiers = build_embedders(settings, clock=SystemClock())
    if tiers.deep is None:
        return [None] * len(pairs)
    cosines = list[float | None]()
    try:
        for start in range(0, len(pairs), TOGETHER):
            some = [(pair.first, pair.second) for pair in pairs[start : start + TOGETHER]]
            cosines.extend(await compare_meanings(some, tiers.deep))
    finally:
        await tiers.close()
    return cosines


def _judged(pair: Pair, cosine: float | None) -> Judged:
    letters = jaccard(runs(folded(pair.first)), runs(folded(pair.second)))
    return Judged(
        pair=pair,
        is_candidate=bool(find_candidates([pair.first, pair.second])),
        jaccard=letters,
        likeness=Likeness(compare_letters(pair.first, pair.second), cosine),
    )


def _print_table(name: str, judged: Sequence[Judged]) -> None:
    duplicates = sum(each.pair.is_duplicate for each in judged)
    print(f"\n{name}: {len(judged):,} pairs, {duplicates:,} duplicates\n")
    print("| rule | merged | precision | recall |\n| --- | --: | --: | --: |")
    for threshold in THRESHOLDS:
        _print_row(f"J >= {threshold:.2f}", judged, [e.jaccard >= threshold for e in judged])
    combined = [
        each.jaccard >= JACCARD_MIN
        and (
            each.likeness.cosine is None
            or JACCARD_WEIGHT * each.jaccard + (1 - JACCARD_WEIGHT) * each.likeness.cosine >= 0.8
        )
        for each in judged
    ]
    _print_row("J >= 0.85, combined >= 0.80", judged, combined)
    kept = [each.likeness.is_confirmed for each in judged]
    _print_row("the same, numbers equal", judged, kept)
    merged = [each.is_candidate and is_kept for each, is_kept in zip(judged, kept, strict=True)]
    _print_row("the same, found by MinHash", judged, merged)


def _print_row(rule: str, judged: Sequence[Judged], merged: Sequence[bool]) -> None:
    right = sum(
        each.pair.is_duplicate for each, is_merged in zip(judged, merged, strict=True) if is_merged
    )
    count, duplicates = sum(merged), sum(each.pair.is_duplicate for each in judged)
    precision = f"{100 * right / count:.1f} %" if count else "-"
    print(f"| {rule} | {count:,} | {precision} | {100 * right / duplicates:.1f} % |")


if __name__ == "__main__":
    main()

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engram.clock import SystemClock
from engram.embedding.passages import compare_meanings
from engram.settings import load_settings
from engram.text.near_duplicates import (
    Similarity,
    compare_characters,
    find_candidates,
    folded,
    jaccard,
    ngrams,
)
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

    is_duplicate: bool
    is_candidate: bool
    letters: Similarity
    """By the bigrams alone, whatever else differs."""
    whole: Similarity
    """As `memory_consolidate` sees it: 0 where numbers or names differ."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one rule merges."""

    rule: str
    merged: int
    precision: float | None
    recall: float


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
    bigrams = jaccard(ngrams(folded(pair.first)), ngrams(folded(pair.second)))
    return Judged(
        is_duplicate=pair.is_duplicate,
        is_candidate=bool(find_candidates([pair.first, pair.second])),
        letters=Similarity(bigrams, cosine),
        whole=Similarity(compare_characters(pair.first, pair.second), cosine),
    )


def table_of(judged: Sequence[Judged]) -> list[Row]:
    """Return what several thresholds would merge, and what the rules in force do."""
    rules: dict[str, Callable[[Judged], bool]] = {
        f"J >= {threshold:.2f}": partial(_reaches, threshold=threshold) for threshold in THRESHOLDS
    }
    rules["J >= 0.85 and 0.7 J + 0.3 cosine >= 0.80"] = lambda each: each.letters.is_confirmed
    rules["the same, and equal numbers and names"] = lambda each: each.whole.is_confirmed
    rules["the same, among the candidates of MinHash"] = lambda each: (
        each.whole.is_confirmed and each.is_candidate
    )
    return [_row(name, judged, rule) for name, rule in rules.items()]


def _reaches(each: Judged, *, threshold: float) -> bool:
    return each.letters.jaccard >= threshold


def _row(name: str, judged: Sequence[Judged], rule: Callable[[Judged], bool]) -> Row:
    merged = [each for each in judged if rule(each)]
    right = sum(each.is_duplicate for each in merged)
    return Row(
        rule=name,
        merged=len(merged),
        precision=right / len(merged) if merged else None,
        recall=right / sum(each.is_duplicate for each in judged),
    )


def _print_table(name: str, judged: Sequence[Judged]) -> None:
    duplicates = sum(each.is_duplicate for each in judged)
    print(f"\n{name}: {len(judged):,} pairs, {duplicates:,} duplicates\n")
    print("| rule | merged | precision | recall |\n| --- | --: | --: | --: |")
    for row in table_of(judged):
        precision = "" if row.precision is None else f"{100 * row.precision:.1f} %"
        print(f"| {row.rule} | {row.merged:,} | {precision} | {100 * row.recall:.1f} % |")


if __name__ == "__main__":
    main()

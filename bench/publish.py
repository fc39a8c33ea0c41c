"""Renew the page on performance and its chart from the last full benchmarks.

python -m bench.publish
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.__main__ import BENCHMARKS
from bench.chart import draw_latencies
from bench.figures import Figure, load
from bench.meaning import load_latencies

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"
CHART = DOCS / "latency.png"
BEGIN = "<!-- begin figures: make performance -->"
END = "<!-- end figures -->"


def main() -> int:
    """Return the exit status."""
    try:
        figures = {name: load(name) for name in BENCHMARKS}
        latencies = load_latencies()
    except FileNotFoundError as exc:
        sys.exit(f"{exc.filename} is missing: run `make bench` first")
    PAGE.write_text(with_figures(PAGE.read_text(), figures))
    draw_latencies(latencies, CHART)
    print(f"renewed {PAGE.name} and {CHART.name}")
    return 0


def with_figures(page: str, figures: Mapping[str, Sequence[Figure]]) -> str:
    """Return a page with other figures between its marks."""
    tables = "\n\n".join(table_of(name, some) for name, some in figures.items())
    return between_marks(page, tables, begin=BEGIN, end=END)


def between_marks(page: str, text: str, *, begin: str, end: str) -> str:
    """Return a page with another text between two marks."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    assert rest, f"the page has no mark {begin}"
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def table_of(name: str, figures: Sequence[Figure]) -> str:
    """Return the figures of one benchmark as Markdown."""
    return "\n".join([f"### `make bench ARGS={name}`", "", *_rows(figures)])


def _rows(figures: Iterable[Figure]) -> Iterator[str]:
    yield "| figure | measured | beside it | ratio | to reach |"
    yield "| --- | ---: | --- | ---: | --- |"
    for figure in figures:
        bound = "" if figure.bound is None else f"{figure.direction} {figure.bound:g}"
        missed = "" if figure.is_reached else ", **missed**"
        yield (
            f"| {figure.name} | {number(figure.value)} {figure.unit} "
            f"| {figure.floor_name}: {number(figure.floor)} "
            f"| {figure.ratio:.2f} | {bound}{missed} |"
        )


def number(value: float) -> str:
    """Return a value in as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())

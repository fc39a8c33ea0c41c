"""A measured figure beside its floor, and the table of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

RESULTS = Path(__file__).with_name("results")

Direction = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, what it is compared with, and the bound of their ratio."""

    name: str
    value: float
    unit: str
    floor: float
    floor_name: str
    direction: Direction
    bound: float | None
    """None for a figure that is only reported."""

    @property
    def ratio(self) -> float:
        """Return the figure in units of its floor."""
        return self.value / self.floor

    @property
    def is_reached(self) -> bool:
        """Return whether the ratio is within its bound."""
        if self.bound is None:
            return True
        return (
            self.ratio >= self.bound if self.direction == "at least" else self.ratio <= self.bound
        )

    def line(self) -> str:
        """Return the figure as one line of text."""
        bound = "" if self.bound is None else f", {self.direction} {self.bound:g}"
        verdict = "" if self.is_reached else "   MISSED"
        return (
            f"{self.name}: {self.value:,.2f} {self.unit}; "
            f"{self.floor_name}: {self.floor:,.2f}; ratio {self.ratio:.2f}{bound}{verdict}"
        )


def allowed(name: str, value: float, *, unit: str, at_most: float, is_bound: bool = True) -> Figure:
    """Return a figure beside a fixed limit, which may be that of another size."""
    return Figure(
        name=name,
        value=value,
        unit=unit,
        floor=at_most,
        floor_name="allowed" if is_bound else "allowed at full size",
        direction="at most",
        bound=1.0 if is_bound else None,
    )


def results_directory(*, quick: bool) -> Path:
    """Return where results are kept; rough ones lie apart, so that nobody takes them for others."""
    directory = RESULTS / "quick" if quick else RESULTS
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def save(figures: Iterable[Figure], *, name: str, quick: bool) -> None:
    """Write figures where the next run and other tools can read them."""
    rows: Sequence[dict[str, object]] = [asdict(figure) for figure in figures]
    path = results_directory(quick=quick) / f"{name}.json"
    path.write_text(json.dumps(rows, indent=2) + "\n")


def load(name: str) -> list[Figure]:
    """Return the figures of the last full run of a benchmark.

    Raises:
        FileNotFoundError: there was none.
    """
    path = results_directory(quick=False) / f"{name}.json"
    return [Figure(**row) for row in json.loads(path.read_bytes())]

"""Charts: how a search grows with its store, and how much evidence an answer has for its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.meaning import Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCurves:
    """Of a set, the share of the evidence in per cent within growing numbers of tokens."""

    name: str
    tokens: Sequence[int]
    answer: Sequence[float]
    """In the text that a model is sent."""
    dump: Sequence[float]
    """In the same results as JSON."""


def draw_latencies(latencies: Sequence[Latency], path: Path) -> None:
    """Draw the latencies of stores of growing size, both axes by powers of ten."""
    # Any, since the library's types leave most arguments open.
    figure: Any = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    sizes = [latency.messages for latency in latencies]
    axes.plot(sizes, [latency.p95_ms for latency in latencies], "o--", label="p95")
    axes.plot(sizes, [latency.p50_ms for latency in latencies], "o-", label="p50")
    axes.plot(sizes, [latency.cpu_ms for latency in latencies], "s:", label="processor time")
    axes.set(xscale="log", yscale="log", xlabel="messages in the store", ylabel="milliseconds")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    _save(figure, path)


def draw_evidence(sets: Sequence[EvidenceCurves], path: Path) -> None:
    """Draw the evidence against the tokens of each set, side by side."""
    # Any, as above.
    figure: Any = Figure(figsize=(3.4 * len(sets) + 0.6, 3.6), layout="constrained")
    [panels] = figure.subplots(1, len(sets), sharey=True, squeeze=False)
    for axes, each in zip(panels, sets, strict=True):
        axes.plot([0, *each.tokens], [0, *each.answer], "o-", label="answer")
        axes.plot([0, *each.tokens], [0, *each.dump], "s--", label="the same results as JSON")
        axes.set(title=each.name, xlabel="tokens sent", ylim=(0, 100))
        axes.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("evidence in them, %")
    panels[-1].legend(loc="lower right")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    # Without the version of the library, the same figures make the same file.
    figure.savefig(path, dpi=120, metadata={"Software": None})

"""The chart of how a search grows with its store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.meaning import Latency


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
    # Without the version of the library, the same figures make the same file.
    figure.savefig(path, dpi=120, metadata={"Software": None})

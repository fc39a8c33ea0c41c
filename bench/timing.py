"""How long a piece of work took, on the clock and on the processor."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spent:
    """The time of one piece of work."""

    wall_s: float
    cpu_s: float
    """Of all threads of this process together."""


class Stopwatch:
    """Runs from the moment it is made."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def spent(self) -> Spent:
        """Return the time so far."""
        return Spent(time.perf_counter() - self._wall, time.process_time() - self._cpu)


def timed(work: Callable[[], object]) -> Spent:
    """Return the time of a call."""
    watch = Stopwatch()
    work()
    return watch.spent()


def median_wall(rounds: Iterable[Spent]) -> float:
    """Return the median seconds on the clock."""
    return statistics.median(spent.wall_s for spent in rounds)


def fastest_wall(rounds: Iterable[Spent]) -> float:
    """Return the least seconds on the clock: those of the round that was disturbed least."""
    return min(spent.wall_s for spent in rounds)


def median_cpu(rounds: Iterable[Spent]) -> float:
    """Return the median seconds on the processor."""
    return statistics.median(spent.cpu_s for spent in rounds)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least of the values that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

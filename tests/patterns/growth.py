"""Measure how much longer work takes when its input doubles, in CPU time of one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

GROWTH_MAX = 2.8
"""Linear work doubles and quadratic work quadruples; the rest is room for caches and the clock."""

SIZE_MAX = 4_096
"""Quadratic work on so much takes tens of times longer than linear work."""

_SIZE_MIN = 8
_WORTH_JUDGING_S = 0.002
"""What takes less than this at `SIZE_MAX` is quick: quadratic work takes ten times longer and more."""

_LONG_ENOUGH_S = 0.02
"""Sizes past this tell nothing new, and would take seconds for quadratic work."""

_SUDDEN_S = 0.000_05
_SUDDEN_GROWTH = 12
"""Work that grows so much, to something the clock can see, may be exponential."""

_STEP = 1.25
_STEP_GROWTH = 2
"""Exponential work grows so much in such a step; a pattern's bound that is reached, hardly at all."""

_ROUNDS = 3
_TRIES = 10
"""A processor that others use at times takes longer over the same work; not ten times in a row."""

Work = Callable[[int], Callable[[], object]]
"""Prepares an input of about the given size, and returns what is to be measured on it."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How long work takes at a size, and how many times longer than at half of it."""

    size: int
    seconds: float
    times: float

    @property
    def is_linear(self) -> bool:
        """Return True if the work takes hardly any time, or about twice as long when doubled."""
        return self.times <= GROWTH_MAX


def measure_growth(work: Work, *, size_max: int = SIZE_MAX) -> Growth:
    """Return the least growth of some tries, at the largest size that is quick to measure."""
    size, before, seconds = _SIZE_MIN, 0.0, _once(work(_SIZE_MIN))
    while size < size_max and seconds < _LONG_ENOUGH_S:
        if _is_sudden(before, seconds) and _is_exponential(work, size):
            break
        size, before, seconds = size * 2, seconds, _once(work(size * 2))
    if size >= size_max and seconds < _WORTH_JUDGING_S:
        return Growth(size, seconds, 1.0)
    return _least_growth(work, size // 2, size, enough=GROWTH_MAX)


def _is_sudden(before: float, seconds: float) -> bool:
    return seconds > _SUDDEN_S and seconds > before * _SUDDEN_GROWTH > 0


def _is_exponential(work: Work, size: int) -> bool:
    growth = _least_growth(work, size, int(size * _STEP), enough=_STEP_GROWTH)
    return growth.times > _STEP_GROWTH


def _least_growth(work: Work, smaller: int, size: int, *, enough: float) -> Growth:
    """Return the least growth of some tries, the first one that is small `enough` if there is one."""
    growth = _compare(work, smaller, size)
    for _ in range(_TRIES - 1):
        if growth.times > enough:
            growth = min(growth, _compare(work, smaller, size), key=lambda each: each.times)
    return growth


def _compare(work: Work, smaller: int, size: int) -> Growth:
    less, whole = work(smaller), work(size)
    pairs = [(_once(less), _once(whole)) for _ in range(_ROUNDS)]
    before, seconds = (min(each) for each in zip(*pairs, strict=True))
    return Growth(size, seconds, seconds / max(before, 1e-9))


def _once(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start

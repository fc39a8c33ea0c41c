"""Measure how long callbacks keep an event loop from everybody else, in CPU time of its thread.

Not by the clock on the wall: on a busy machine every callback waits for the processor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

STALL_MS_MAX = 50
"""What a callback may take, however long the texts of a request are."""


@dataclass(slots=True)
class Stalls:
    """The callbacks that ran in a block, the longest first."""

    callbacks: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    @property
    def worst_ms(self) -> float:
        """Return how long the longest callback took."""
        return max((took for took, _ in self.callbacks), default=0.0)


@contextmanager
def measured_callbacks() -> Generator[Stalls]:
    """Measure each callback of every event loop of this process."""
    stalls = Stalls()
    run = asyncio.Handle._run  # every callback goes through it

    def measured(self: asyncio.Handle) -> None:
        start = time.thread_time()
        try:
            run(self)
        finally:
            took = (time.thread_time() - start) * 1_000
            if took > 1:
                stalls.callbacks.append((took, repr(self)))

    asyncio.Handle._run = measured
    try:
        yield stalls
    finally:
        asyncio.Handle._run = run
        stalls.callbacks.sort(reverse=True)

"""Processor time of other processes."""

from __future__ import annotations

import time

_CLOCK_OF_PROCESS = 2
"""In the kernel's numbers of clocks: all that a process has run, in nanoseconds."""


def cpu_s(pid: int) -> float:
    """Return the processor seconds of a process so far; Linux alone.

    `/proc` counts in ticks of 10 ms, which are longer than what is measured.

    Raises:
        OSError: the process has ended.
    """
    return time.clock_gettime(~pid << 3 | _CLOCK_OF_PROCESS)

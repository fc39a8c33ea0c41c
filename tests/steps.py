"""Measure the longest step of work in CPU time: while a step runs, no other thread of Python can.

A step is what lies between two lines of Python; calls into C are not interrupted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

STEP_MS_MAX = 100
"""How long work on a caller's text may keep other threads from running."""


def longest_step(work: Callable[[], object]) -> tuple[float, str]:
    """Return how many milliseconds the longest step of `work` takes, and where it ends."""
    longest, place, last = 0.0, "", time.thread_time()

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal longest, place, last
        took = time.thread_time() - last
        if took > longest:
            longest, place = took, f"{event} {frame.f_code.co_qualname}:{frame.f_lineno}"
        last = time.thread_time()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return longest * 1_000, place

"""Shift the clock of an Engram process by the seconds that a file says, which may change any time.

Python imports this at its start when the directory is in PYTHONPATH. All time that Engram stores or
compares with what is stored comes from `SystemClock`; a preloaded library (libfaketime) would shift
the timers of the event loop too, and breaks `time.sleep`.
"""

import os
from datetime import datetime, timedelta
from pathlib import Path

from engram.clock import SystemClock

_OFFSET = Path(os.environ["TORTURE_CLOCK"])  # noqa: TID251 of the harness, not of Engram
_now = SystemClock.now


def _shifted(self: SystemClock) -> datetime:
    try:
        return _now(self) + timedelta(seconds=float(_OFFSET.read_text()))
    except (OSError, ValueError):
        # It is being written at this moment.
        return _now(self)


SystemClock.now = _shifted

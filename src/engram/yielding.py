"""Cooperative scheduling of long work in threads: it yields to short requests of other organisations.

Threads share one interpreter. A search gives it up some sixty times, to SQLite, to sockets and to
other threads, and each time waits for whoever computes to let go of it. So work whose length a caller
chooses calls `yield_to_others` every few microseconds, and pauses there while a request of another
organisation has just begun. It is never starved: see `PAUSE_RATIO_MAX`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

WORK_S = 0.001
"""How long a thread works between two looks at who else is there."""

SHORT_REQUEST_S = 0.1
"""A request that has taken longer is long work itself, and nobody pauses for it any more."""

PAUSE_S = 0.001
PAUSE_RATIO = 4.0
"""Work of a second earns so many seconds of pauses: at least a fifth of the time is its own."""

ALLOWANCE_S_MAX = 0.5
"""Pauses that can be earned in advance."""

WORK_COUNTED_S_MAX = 0.02
"""Between two looks; what is more was no work but waiting for some."""

_organization: ContextVar[str | None] = ContextVar("organization", default=None)
_numbers = itertools.count()
_at_work: dict[int, tuple[str, float]] = {}
"""The organisation of each request at work, and when the request began."""


class _Thread(threading.local):
    """What is known of each thread."""

    looked_at: float = 0.0
    allowance_s: float = ALLOWANCE_S_MAX
    """How long it may still pause."""


_thread = _Thread()


@contextmanager
def serving(organization_id: str) -> Generator[None]:
    """Have the work of others yield while the block runs, and its own not to itself."""
    number = next(_numbers)
    token = _organization.set(organization_id)
    _at_work[number] = (organization_id, time.monotonic())
    try:
        yield
    finally:
        del _at_work[number]
        _organization.reset(token)


def yield_to_others() -> None:
    """Pause this thread while short requests of other organisations are at work; cheap if not."""
    now = time.monotonic()
    worked_s = now - _thread.looked_at
    if worked_s < WORK_S:
        return
    earned_s = PAUSE_RATIO * min(worked_s, WORK_COUNTED_S_MAX)
    _thread.allowance_s = min(_thread.allowance_s + earned_s, ALLOWANCE_S_MAX)
    if _at_work and threading.current_thread() is not threading.main_thread():
        _pause()
    _thread.looked_at = time.monotonic()


def _pause() -> None:
    own = _organization.get()
    while _thread.allowance_s > 0 and _others_wait(own):
        began = time.monotonic()
        time.sleep(PAUSE_S)
        _thread.allowance_s -= time.monotonic() - began


def _others_wait(own: str | None) -> bool:
    """Return True if a request of another organisation has just begun."""
    since = time.monotonic() - SHORT_REQUEST_S
    # A copy: requests come and go in the thread of the event loop meanwhile.
    return any(owner != own and began > since for owner, began in list(_at_work.values()))

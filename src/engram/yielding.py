"""Cooperative scheduling of long work on the texts of callers, which yields to short requests.

Threads share one interpreter. A search gives it up some sixty times, to SQLite, to sockets and to
other threads, and each time waits until a computing thread releases it. So work whose length a caller
chooses runs on a thread (`offload`), calls `yield_to_others` every few microseconds, and pauses there
while a request of another organisation has just begun. It is never starved: see `PAUSE_RATIO`. Work whose
caller was cancelled ends there.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

from engram.limits import INLINE_CHARACTERS_MAX, LONG_TEXT_CHARACTERS

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

WORK_S = 0.001
"""How long a thread works between two checks for waiting requests."""

SHORT_REQUEST_S = 0.1
"""A request that has taken longer is long work itself; no thread pauses for it any more."""

PAUSE_S = 0.001
PAUSE_RATIO = 4.0
"""Work of a second earns so many seconds of pauses: at least a fifth of the time is its own."""

ALLOWANCE_S_MAX = 0.5
"""Pauses that can be earned in advance."""

WORK_COUNTED_S_MAX = 0.02
"""Counted between two checks; a longer interval was idle time."""

_organization: ContextVar[str | None] = ContextVar("organization", default=None)
_numbers = itertools.count()
_at_work: dict[int, tuple[str, float]] = {}
"""The organisation of each request at work, and when the request began."""


class AbandonedError(BaseException):
    """Ends work in a thread whose caller was cancelled; no handler of errors may stop it."""


class _Work:
    """What a thread was given."""

    __slots__ = ("is_abandoned",)

    def __init__(self) -> None:
        self.is_abandoned = False


class _Thread(threading.local):
    """State of each thread."""

    work: _Work | None = None

    looked_at: float = 0.0
    allowance_s: float = ALLOWANCE_S_MAX
    """How long it may still pause."""
    is_awaited: bool = False
    """Whether it holds a lock, and so never pauses."""


_thread = _Thread()


@contextmanager
def serving(organization_id: str) -> Generator[None]:
    """Register a request of an organisation, to which the work of others yields in the block."""
    number = next(_numbers)
    token = _organization.set(organization_id)
    _at_work[number] = (organization_id, time.monotonic())
    try:
        yield
    finally:
        del _at_work[number]
        _organization.reset(token)


@contextmanager
def without_pauses() -> Generator[None]:
    """Keep this thread from pausing in the block, because it holds a lock."""
    _thread.is_awaited = True
    try:
        yield
    finally:
        _thread.is_awaited = False


def yield_to_others() -> None:
    """Pause this thread while short requests of other organisations are at work; cheap if not.

    Raises:
        AbandonedError: whoever waited for this thread was cancelled.
    """
    now = time.monotonic()
    worked_s = now - _thread.looked_at
    if worked_s < WORK_S:
        return
    if _thread.work is not None and _thread.work.is_abandoned:
        raise AbandonedError
    earned_s = PAUSE_RATIO * min(worked_s, WORK_COUNTED_S_MAX)
    _thread.allowance_s = min(_thread.allowance_s + earned_s, ALLOWANCE_S_MAX)
    if _at_work and _may_pause():
        _pause()
    _thread.looked_at = time.monotonic()


def _may_pause() -> bool:
    return not _thread.is_awaited and threading.current_thread() is not threading.main_thread()


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


async def offload(work: Callable[[], T], *, characters: int) -> T:
    """Return what `work` returns: at once for short texts, else from a thread.

    A thread costs more than the work on a short text; the work on a long one would stop the event
    loop, and with it the requests of everybody else. Very long texts wait for each other. If the
    caller is cancelled, the work ends where it yields next.
    """
    if characters <= INLINE_CHARACTERS_MAX:
        return work()
    import asyncio

    given = _Work()
    run = partial(copy_context().run, partial(_run, given, work))
    pool = None if characters <= LONG_TEXT_CHARACTERS else _long_texts()
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, run)
    except asyncio.CancelledError:
        given.is_abandoned = True
        raise


def _run(given: _Work, work: Callable[[], T]) -> T:
    if given.is_abandoned:
        raise AbandonedError
    _thread.work = given
    try:
        return work()
    finally:
        _thread.work = None


@cache
def _long_texts() -> ThreadPoolExecutor:
    """Return a pool of one thread: several that analyse megabytes would slow down every request."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="engram-long-texts")

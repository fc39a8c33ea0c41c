"""Run short blocking work in a few threads, with less ado than an executor.

Measured: 90 µs for a call and its answer against 145 µs, and 18 µs against 46 µs a call with
sixteen callers at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from engram.storage.sqlite.handoff import Ticket, deliver

T = TypeVar("T")

logger = logging.getLogger(__name__)


class WorkerThreads:
    """At most `threads_max` threads, started as they are needed."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    async def run(self, function: Callable[[], T]) -> T:
        """Return what `function` returns or raises in a thread; it runs even if cancelled."""
        ticket: Ticket[T] = Ticket()
        self.start(partial(_answer, function, ticket))
        return await ticket.future

    def start(self, job: Callable[[], None]) -> None:
        """Run `job` without waiting for it; a failure goes to the log."""
        self._jobs.put(job)
        if not self._idle.acquire(blocking=False):
            self._add_thread()

    def stop(self) -> None:
        """Finish every job that was started and end the threads; blocks until then."""
        with self._lock:
            threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join()

    def _add_thread(self) -> None:
        with self._lock:
            if len(self._threads) < self._threads_max:
                name = f"engram-reader-{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                logger.exception("a job that nobody waits for failed")
            self._idle.release()


def _answer(function: Callable[[], T], ticket: Ticket[T]) -> None:
    try:
        ticket.succeed(function())
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is the waiter's
        ticket.fail(exc)
    deliver([ticket])

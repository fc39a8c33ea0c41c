"""Worker threads for short blocking work, and tickets that return results to event loops.

Faster than an executor. Measured: 90 µs for a call and its answer against 145 µs, and 18 µs against
46 µs a call with sixteen callers at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from engram.errors import StorageError

T = TypeVar("T")


class Inbox(Protocol[T]):
    """A queue that threads fill and one of them empties; `SimpleQueue` is one."""

    def put(self, item: T) -> None:
        """Add an item; never blocks."""
        ...

    def get(self) -> T:
        """Take the oldest item, once there is one."""
        ...

    def get_nowait(self) -> T:
        """Take the oldest item, or raise `queue.Empty`."""
        ...


class Joinable(Protocol):
    """A thread that was started."""

    def join(self) -> None:
        """Wait until it has ended."""
        ...


class Scheduler(Protocol):
    """Runs threads and lets them wait; a port, so that a simulation can decide who runs when."""

    def start(self, run: Callable[[], None], *, name: str) -> Joinable:
        """Start a thread; unanswered work may be lost when the process ends."""
        ...

    def inbox(self) -> Inbox[Any]:
        """Return an empty queue."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let other threads run for so long."""
        ...


class SystemScheduler:
    """The threads and the time of the operating system."""

    def start(self, run: Callable[[], None], *, name: str) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def inbox(self) -> SimpleQueue[Any]:
        return SimpleQueue()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_SCHEDULER = SystemScheduler()


class Ticket(Generic[T]):
    """A future of an event loop that a thread settles."""

    __slots__ = ("_error", "_value", "future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self._value: T
        self._error: Exception | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether the caller was cancelled."""
        return self.future.cancelled()

    def succeed(self, value: T) -> None:
        """Set the result; the caller gets it with `deliver`."""
        self._value = value

    def fail(self, error: Exception) -> None:
        """Set the error, in place of any result."""
        if isinstance(error, StopIteration):
            # A future cannot carry it, and the caller could not tell it from its own.
            error = RuntimeError("work ran past the end of an iterator")
        self._error = error

    def settle(self) -> None:
        """Settle the future; to be called once, in its event loop."""
        future, error = self.future, self._error
        # Frames of the thread may refer to this ticket, and the error refers to these frames: a ticket
        # that kept the error would keep all they hold until the garbage collector runs.
        del self.future
        self._error = None
        if future.done():
            return
        if error is None:
            future.set_result(self._value)
        else:
            future.set_exception(error)


class ThreadTicket(Generic[T]):
    """A ticket that another thread waits for."""

    __slots__ = ("_error", "_settled", "_value")

    is_abandoned = False

    def __init__(self, scheduler: Scheduler) -> None:
        self._settled: Inbox[None] = scheduler.inbox()
        self._value: T
        self._error: Exception | None = None

    def succeed(self, value: T) -> None:
        """Set the result."""
        self._value = value

    def fail(self, error: Exception) -> None:
        """Set the error, in place of any result."""
        self._error = error

    def settle(self) -> None:
        """Wake the thread that waits."""
        self._settled.put(None)

    def wait(self) -> T:
        """Return the result, or raise the error, once there is one."""
        self._settled.get()
        if self._error is not None:
            raise self._error
        return self._value


def deliver(tickets: Sequence[Ticket[Any] | ThreadTicket[Any]]) -> None:
    """Settle every ticket in its own event loop, waking each loop once, or for the thread that waits."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Ticket[Any]]] = defaultdict(list)
    for ticket in tickets:
        if isinstance(ticket, ThreadTicket):
            ticket.settle()
        else:
            by_loop[ticket.loop].append(ticket)
    for loop, settled in by_loop.items():
        # Raised by a loop that has been closed, which has no callers left.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_all, settled)


def _settle_all(tickets: Sequence[Ticket[Any]]) -> None:
    for ticket in tickets:
        ticket.settle()


logger = logging.getLogger(__name__)


class _Job(NamedTuple):
    """What a thread runs, and what it calls once it is free for the next job."""

    work: Callable[[], None]
    after: Callable[[], None] | None = None


class WorkerThreads:
    """At most `threads_max` threads, started as they are needed.

    The thread that became idle last works next: its memory is still in the cache of its processor.
    """

    def __init__(self, threads_max: int, *, scheduler: Scheduler = SYSTEM_SCHEDULER) -> None:
        self.scheduler = scheduler
        self._threads_max = threads_max
        self._threads: list[_Worker] = []
        self._resting: list[_Worker] = []
        self._waiting: deque[_Job] = deque()
        """Jobs that no thread was free for."""
        self._lock = threading.Lock()
        self._is_stopped = False

    async def run(self, function: Callable[[], T]) -> T:
        """Return what `function` returns or raises in a thread; it runs even if cancelled."""
        ticket: Ticket[T] = Ticket()
        work = partial(copy_context().run, function)
        self._start(_Job(partial(_answer, work, ticket), partial(deliver, [ticket])))
        return await ticket.future

    def start(self, function: Callable[[], None]) -> None:
        """Run `function` without waiting for it; a failure goes to the log.

        Raises:
            StorageError: the threads have been stopped.
        """
        self._start(_Job(function))

    def _start(self, job: _Job) -> None:
        with self._lock:
            if self._is_stopped:
                raise StorageError("the store has been closed")
            if self._resting:
                self._resting.pop().give(job)
            elif len(self._threads) < self._threads_max:
                self._add_thread(job)
            else:
                self._waiting.append(job)

    def stop(self) -> None:
        """Finish every job that was started and end the threads; blocks until then."""
        with self._lock:
            self._is_stopped = True
            for worker in self._resting:
                worker.give(None)
            self._resting = []
        for worker in self._threads:
            worker.join()

    def _add_thread(self, job: _Job) -> None:
        name = f"engram-reader-{len(self._threads)}"
        worker = _Worker(self._next_job, name=name, scheduler=self.scheduler)
        self._threads.append(worker)
        worker.give(job)

    def _next_job(self, worker: _Worker) -> None:
        """Give a worker that is free the job that waits longest, or let it rest."""
        with self._lock:
            if self._waiting:
                worker.give(self._waiting.popleft())
            elif self._is_stopped:
                worker.give(None)
            else:
                self._resting.append(worker)


class _Worker:
    """A thread that runs the jobs it is given, one after the other, until it is given None."""

    def __init__(self, ask: Callable[[_Worker], None], *, name: str, scheduler: Scheduler) -> None:
        self._ask = ask
        self._given: Inbox[_Job | None] = scheduler.inbox()
        self.join = scheduler.start(self._run, name=name).join

    def give(self, job: _Job | None) -> None:
        """Have a job run next."""
        self._given.put(job)

    def _run(self) -> None:
        while (job := self._given.get()) is not None:
            try:
                job.work()
            except Exception:
                logger.exception("a job that nobody waits for failed")
            # First, so that the caller finds this thread free.
            self._ask(self)
            if job.after is not None:
                job.after()
            del job  # or what it worked on would stay until there is another


def _answer(function: Callable[[], T], ticket: Ticket[T]) -> None:
    try:
        ticket.succeed(function())
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is the waiter's
        ticket.fail(exc)

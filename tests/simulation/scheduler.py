"""Simulated time and scheduling: one runs at a time, and a seeded generator chooses which.

Each simulated process has an event loop, whose callbacks run in their order, and threads. A thread is
one of the operating system that waits for its turn, so that it can be stopped within a call of SQLite.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from queue import Empty
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

STEP_S = 0.00002
"""Virtual time that every step takes."""

DRAIN_STEPS_MAX = 100_000
"""Callbacks of a killed process while it unwinds; more would be an endless loop."""


class ProcessKilledError(BaseException):
    """Unwinds the threads and tasks of a process that was killed."""


class Runnable(Protocol):
    """What a step may choose."""

    name: str

    def step(self) -> bool:
        """Run until the next wait; return True if there is more to run at once."""
        ...


class World:
    """The time, the generator and everything that can run."""

    def __init__(self, seed: int, *, keeps_log: bool = False) -> None:
        self.random = random.Random(seed)  # noqa: S311 repeatable on purpose
        self.now_s = 0.0
        self.steps = 0
        self.current: Fiber | None = None
        self.log_lines: list[str] | None = [] if keeps_log else None
        self.unhandled: list[dict[str, Any]] = []
        """Errors that no code of the processes has handled."""
        self._ready: list[Runnable] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._digest = hashlib.blake2b(digest_size=16)

    def log(self, event: str) -> None:
        """Add an event to the history."""
        line = f"{self.steps} {self.now_s:.6f} {event}"
        self._digest.update(line.encode(errors="surrogatepass"))
        if self.log_lines is not None:
            self.log_lines.append(line)

    @property
    def digest(self) -> str:
        """Return the digest of the history so far: every choice and every event."""
        return self._digest.hexdigest()

    def add(self, runnable: Runnable) -> None:
        """Let a step choose something that can run."""
        self._ready.append(runnable)

    def call_at(self, when_s: float, callback: Callable[[], None]) -> None:
        """Call a function at a time."""
        heapq.heappush(self._timers, (when_s, next(self._numbers), callback))

    def run_until(self, is_done: Callable[[], bool], *, steps_max: int) -> bool:
        """Run until a condition holds; return False if that takes too many steps."""
        last = self.steps + steps_max
        while not is_done():
            if self.steps >= last or not self.step():
                return False
        return True

    def step(self) -> bool:
        """Run one chosen runnable, or let time pass; return False if nothing is left to wait for."""
        self.steps += 1
        self.now_s += STEP_S
        if not self._ready and self._timers:
            self.now_s = max(self.now_s, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self.now_s:
            heapq.heappop(self._timers)[2]()
        if not self._ready:
            return bool(self._timers)
        self._run_one()
        return True

    def _run_one(self) -> None:
        ready = self._ready
        index = int(self.random.random() * len(ready))
        chosen = ready[index]
        ready[index] = ready[-1]
        ready.pop()
        self._digest.update(chosen.name.encode())
        if chosen.step():
            ready.append(chosen)


class _Thread(threading.Thread):
    """A thread of the operating system that lends itself to one fiber after another."""

    idle: list[_Thread] = []  # noqa: RUF012 shared by all worlds on purpose: starting threads is slow

    def __init__(self) -> None:
        super().__init__(name="simulated", daemon=True)
        self.turn = threading.Lock()
        self.returned = threading.Lock()
        # Taken by the one who waits, and released by the other.
        self.turn.acquire()
        self.returned.acquire()
        self.work: Callable[[], None] | None = None
        self.start()

    def run(self) -> None:
        while True:
            self.turn.acquire()
            assert self.work is not None
            self.work()
            self.work = None
            self.idle.append(self)
            self.returned.release()


class Fiber:
    """A simulated thread: it runs when a step chooses it, until it waits."""

    def __init__(self, process: SimulatedProcess, run: Callable[[], None], *, name: str) -> None:
        self.process = process
        self.world = process.world
        self.name = f"{process.name}/{name}"
        self.is_done = False
        self.in_file_layer = False
        """Whether it waits within a call of SQLite, where no exception may be raised."""
        self._run = run
        self._context = copy_context()
        self._thread: _Thread | None = None
        self._joining: list[Fiber] = []
        process.fibers[self] = None
        self.world.add(self)

    def step(self) -> bool:
        """Run until the next wait; it makes itself ready again when it can run on."""
        if not self.is_done:
            self._resume()
        return False

    def unwind(self) -> None:
        """Run to the end after the process was killed."""
        while not self.is_done:
            if self._thread is None:
                self._finish()
            else:
                self._resume()

    def pause(self) -> None:
        """Give the turn back; return when it is this fiber's again."""
        assert self._thread is not None
        thread = self._thread
        thread.returned.release()
        thread.turn.acquire()
        if not self.process.is_alive and not self.in_file_layer:
            raise ProcessKilledError

    def give_way(self) -> None:
        """Let a step choose who runs next."""
        self.world.add(self)
        self.pause()

    def sleep(self, seconds: float) -> None:
        """Wait until so much virtual time has passed."""
        self.world.call_at(self.world.now_s + seconds, partial(self.world.add, self))
        self.pause()

    def join(self) -> None:
        """Wait until this fiber has ended; called by another."""
        waiting = _current(self.world)
        while not self.is_done:
            self._joining.append(waiting)
            waiting.pause()

    def _resume(self) -> None:
        thread = self._thread
        if thread is None:
            thread = self._thread = _Thread.idle.pop() if _Thread.idle else _Thread()
            thread.work = self._work
        before, self.world.current = self.world.current, self
        thread.turn.release()
        thread.returned.acquire()
        self.world.current = before

    def _work(self) -> None:
        try:
            self._context.run(self._run)
        except ProcessKilledError:
            pass  # its process is dead: there is nobody to tell
        except BaseException as exc:  # noqa: BLE001 the death of a thread ends the run
            self.world.unhandled.append({"message": f"{self.name} died", "exception": exc})
        finally:
            self._finish()

    def _finish(self) -> None:
        self.is_done = True
        self.process.fibers.pop(self, None)
        for waiting in self._joining:
            self.world.add(waiting)
        self._run = _nothing
        self._context = Context()


def _nothing() -> None:
    """Do nothing, in place of work that is over: what it held is freed."""


def _current(world: World) -> Fiber:
    assert world.current is not None, "only a simulated thread can wait"
    return world.current


class SimulatedInbox:
    """A queue whose reader waits in the simulation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: deque[Any] = deque()
        self._waiting: Fiber | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._world.add(waiting)

    def get(self) -> Any:
        while not self._items:
            self._waiting = _current(self._world)
            self._waiting.pause()
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()


class SimulatedTask(asyncio.Task[Any]):
    """A task whose place in a set is the same in every run."""

    number: int = 0

    def __hash__(self) -> int:
        return self.number

    __eq__ = object.__eq__


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop of one process, on virtual time; a step runs one of its callbacks."""

    def __init__(self, process: SimulatedProcess) -> None:
        self.name = f"{process.name}/loop"
        self.tasks: dict[SimulatedTask, None] = {}
        self._process = process
        self._world = process.world
        self._handles: deque[asyncio.Handle] = deque()
        self._is_queued = False
        self._numbers = itertools.count(1)

    def step(self) -> bool:
        """Run the next callback."""
        if not self._handles:
            self._is_queued = False
            return False
        handle = self._handles.popleft()
        if not handle.cancelled():
            asyncio._set_running_loop(self)
            try:
                handle._run()
            finally:
                asyncio._set_running_loop(None)
        self._is_queued = bool(self._handles)
        return self._is_queued

    def drain(self) -> None:
        """Cancel everything and run it to its end, after the process was killed."""
        for _ in range(DRAIN_STEPS_MAX):
            if not self._handles:
                pending = [task for task in self.tasks if not task.done()]
                if not pending:
                    return
                for task in pending:
                    task.cancel()
            if not self._handles:
                return  # waits for nothing that could still come
            self.step()
        raise AssertionError("a killed process does not end")

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._add(handle)
        return handle

    def _add(self, handle: asyncio.Handle) -> None:
        self._handles.append(handle)
        if not self._is_queued:
            self._is_queued = True
            self._world.add(self)

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if not self._process.is_alive:
            raise RuntimeError("Event loop is closed")
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._world.call_at(when, partial(self._ring, timer))
        return timer

    def _ring(self, timer: asyncio.TimerHandle) -> None:
        if self._process.is_alive:
            self._add(timer)  # it may still be cancelled before its turn

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when its time has come."""

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def time(self) -> float:
        return self._world.now_s

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        task = SimulatedTask(coro, loop=self, name=name, context=context)
        task.number = next(self._numbers)
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def run_in_executor(
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        del executor  # all of them are threads of the process
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as exc:  # noqa: BLE001 raised in the waiter
                self._settle(future, partial(future.set_exception, exc))
            else:
                self._settle(future, partial(future.set_result, result))

        Fiber(self._process, work, name="executor")
        return future

    def _settle(self, future: asyncio.Future[Any], settle: Callable[[], None]) -> None:
        def settle_if_awaited() -> None:
            if not future.done():
                settle()

        if self._process.is_alive:
            self.call_soon(settle_if_awaited)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self._process.is_alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._process.is_alive:
            self._world.unhandled.append(context)


class SimulatedProcess:
    """A process: its event loop, its threads and whether it lives; the `Scheduler` of its store."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_alive = True
        self.fibers: dict[Fiber, None] = {}
        self.loop = SimulatedLoop(self)

    def start(self, run: Callable[[], None], *, name: str) -> Fiber:
        if not self.is_alive:
            raise ProcessKilledError
        return Fiber(self, run, name=name)

    def inbox(self) -> SimulatedInbox:
        return SimulatedInbox(self.world)

    def monotonic(self) -> float:
        return self.world.now_s

    def sleep(self, seconds: float) -> None:
        _current(self.world).sleep(seconds)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the event loop of the process."""
        return self.loop.create_task(work)

    def kill(self) -> None:
        """End the process where it is: its threads and tasks unwind without effect."""
        self.is_alive = False
        for fiber in list(self.fibers):
            fiber.unwind()
        self.loop.drain()
        for fiber in list(self.fibers):
            fiber.unwind()

"""What is done to processes, disk, network and database while clients work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, NamedTuple

from tests.postgres.servers import Server as Database
from tests.torture.history import Recorder
from tests.torture.processes import Command, Process

CALM_S = 1.5
"""Mean time between two events of one thread."""

CALM_CALLS = 10
"""Calls that succeed between two events of one thread: a slow machine must not only ever recover."""

HOLD_S = 2.0
"""Mean time for which a process is held, the disk is full, or a wire is cut."""

SKEWS_S = (0, -0.5, -90, 90, -3_600, 3_600, -39_600, 39_600)
"""Up to eleven hours: two processes must not be a day apart, which is how long a repeated
idempotency key is remembered."""

_CHUNK = bytes(1 << 16)


class Event(NamedTuple):
    """Something that was done."""

    kind: str
    target: str
    start: float
    end: float


class Nemeses:
    """Threads that each do one thing after the other, chosen by a seed."""

    def __init__(self, recorder: Recorder) -> None:
        self.events: list[Event] = []
        self._recorder = recorder
        self._is_over = threading.Event()

    def work(self, deeds: Sequence[Callable[[Random], Event | None]], random: Random) -> None:
        """Do harm until told to stop, whenever clients have succeeded for a while."""
        due = 0
        while not self._is_over.wait(random.expovariate(1 / CALM_S)):
            if self._recorder.succeeded < due:
                continue
            due = self._recorder.succeeded + CALM_CALLS
            event = random.choice(deeds)(random)
            if event is not None:
                self.events.append(event)

    def stop(self) -> None:
        """Have everyone finish what he is at."""
        self._is_over.set()

    def hold(self, random: Random) -> None:
        """Wait while something is as it should not be, or until all is over."""
        self._is_over.wait(min(random.expovariate(1 / HOLD_S), 4 * HOLD_S))

    def kill(self, processes: Sequence[Process], random: Random) -> Event | None:
        """End a process without a warning; whoever needs it starts it again.

        One that has not answered since its last start is spared, or a slow machine only ever starts.
        """
        process, start = random.choice(processes), monotonic()
        is_due = process.has_answered or isinstance(process, Command)
        if not is_due or not process.kill():
            return None
        return Event("kill -9", process.name, start, monotonic())

    def pause(self, processes: Sequence[Process], random: Random) -> Event | None:
        """Hold a process still for a while, in the middle of whatever it does."""
        process, start = random.choice(processes), monotonic()
        if not process.signal(signal.SIGSTOP):
            return None
        self.hold(random)
        process.signal(signal.SIGCONT)
        return Event("SIGSTOP", process.name, start, monotonic())

    def skew(self, processes: Sequence[Process], random: Random) -> Event:
        """Set the clock of a process."""
        process, start = random.choice(processes), monotonic()
        process.shift_clock(random.choice(SKEWS_S))
        return Event("clock", process.name, start, monotonic())

    def fill(self, disk: Path, random: Random) -> Event:
        """Leave no byte on the disk of the store for a while."""
        start, ballast = monotonic(), disk / "ballast"
        try:
            _fill(ballast)
            self.hold(random)
        finally:
            ballast.unlink(missing_ok=True)
        return Event("full disk", disk.name, start, monotonic())

    def cut(self, wires: Sequence[Wire], random: Random) -> Event:
        """Break the connections between one process and the database, and refuse new ones."""
        wire, start = random.choice(wires), monotonic()
        wire.cut()
        self.hold(random)
        wire.heal()
        return Event("cut wire", wire.name, start, monotonic())

    def silence(self, wires: Sequence[Wire], random: Random) -> Event:
        """Have nothing arrive for a while, in either direction, though connections stay open."""
        wire, start = random.choice(wires), monotonic()
        wire.silence()
        self.hold(random)
        wire.heal()
        return Event("silent wire", wire.name, start, monotonic())

    def crash(self, database: Database, random: Random) -> Event:
        """End all processes of the database at once, and start it after a while."""
        start = monotonic()
        database.kill()
        self.hold(random)
        database.start()
        return Event("database crash", database.name, start, monotonic())


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        free = os.statvfs(path.parent)
        os.posix_fallocate(ballast.fileno(), 0, max(free.f_bavail * free.f_frsize - len(_CHUNK), 1))
        ballast.seek(0, os.SEEK_END)
        while True:
            ballast.write(_CHUNK)


class Wire:
    """A port from which everything is carried to a database, until it is cut."""

    def __init__(self, name: str, database: Database) -> None:
        self.name = name
        self.port = 0
        self._database = database
        self._is_cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_ready = threading.Event()
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Listen from now on."""
        self._thread.start()
        self._is_ready.wait()

    def stop(self) -> None:
        """Close all connections and listen no more."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def cut(self) -> None:
        """Close all connections, and every new one at once."""
        self._loop.call_soon_threadsafe(self._cut)

    def silence(self) -> None:
        """Carry nothing."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def heal(self) -> None:
        """Carry everything again."""
        self._loop.call_soon_threadsafe(self._heal)

    def _cut(self) -> None:
        self._is_cut = True
        for writer in self._open:
            writer.transport.abort()

    def _heal(self) -> None:
        self._is_cut = False
        self._flows.set()

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._stopping.wait()
        listening.close()
        self._heal()
        self._cut()
        await asyncio.gather(*_others(), return_exceptions=True)

    async def _connected(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self._open.add(back)
        try:
            if not self._is_cut:
                await self._carry_both(client, back)
        except OSError:
            # The database is not there, or one of the two has left.
            back.transport.abort()
        finally:
            self._open.discard(back)
            back.close()

    async def _carry_both(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection("127.0.0.1", self._database.port)
        self._open.add(server)
        try:
            await asyncio.gather(self._carry(client, server), self._carry(answers, back))
        finally:
            self._open.discard(server)
            server.close()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while said := await source.read(1 << 16):
                await self._flows.wait()
                sink.write(said)
                await sink.drain()
        finally:
            sink.close()


def _others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {task for task in [asyncio.current_task()] if task}

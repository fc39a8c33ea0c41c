"""Admission control: concurrent requests of each organisation, queued while others need the process.

What requests compete for (threads, models, the interpreter itself) serves first come, first served,
so a request waits for everything that was admitted before it. Few requests of each organisation at
work keep those queues short; the rest wait here, in a queue of their own organisation.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf

from engram import limits
from engram.errors import TooManyAtOnceError
from engram.model.ids import OrganizationId
from engram.model.value import Value
from engram.service.access.rate import TokenBucket


class TurnBounds(Value):
    """Bounds of the requests of one organisation that are at work or wait; times in seconds."""

    alone_max: int = limits.REQUESTS_AT_WORK_MAX
    shared_max: int = limits.REQUESTS_AT_WORK_SHARED_MAX
    waiting_max: int = limits.REQUESTS_WAITING_MAX
    wait_s: float = limits.REQUEST_WAIT_S
    long_s: float = limits.LONG_REQUEST_S
    neighbour_s: float = limits.NEIGHBOUR_S
    tick_s: float = limits.TURNS_TICK_S
    bytes_per_s: float = limits.RECEIVED_BYTES_PER_S_SHARED


@dataclass(slots=True)
class _Waiter:
    turn: Turn
    future: asyncio.Future[None]
    until: float


@dataclass(slots=True, eq=False)
class _Line:
    """The queue of one organisation: its requests at work, by when they began, and those that wait."""

    received: TokenBucket
    """Bytes of bodies; it holds none, so that all that is received takes its time."""
    at_work: OrderedDict[Turn, float] = field(default_factory=OrderedDict["Turn", float])
    waiting: deque[_Waiter] = field(default_factory=deque[_Waiter])
    seen: float = 0.0

    @property
    def is_busy(self) -> bool:
        return bool(self.at_work or self.waiting)


class Turns:
    """The queues of all organisations in one process."""

    def __init__(self, bounds: TurnBounds | None = None) -> None:
        self._bounds = bounds or TurnBounds()
        self._lines: OrderedDict[OrganizationId, _Line] = OrderedDict()
        """Those that were seen lately, the last one at the end."""
        self._is_ticking = False

    @asynccontextmanager
    async def turn(self, organization_id: OrganizationId) -> AsyncGenerator[None]:
        """Hold a turn for the length of the block.

        Raises:
            TooManyAtOnceError: too many requests of the organisation wait, or one waited too long.
        """
        held = await self.enter(organization_id)
        try:
            yield
        finally:
            held.leave()

    async def enter(self, organization_id: OrganizationId) -> Turn:
        """Wait for a turn; the caller has to leave it.

        Raises:
            TooManyAtOnceError: as for `turn`.
        """
        turn = Turn(self, organization_id)
        line = self._line(organization_id)
        if len(line.waiting) >= self._bounds.waiting_max:
            raise TooManyAtOnceError(waiting=len(line.waiting))
        if line.waiting or not self._has_room(line):
            waiter = self._new_waiter(turn, until=line.seen + self._bounds.wait_s)
            line.waiting.append(waiter)
            await self._wait(waiter, line)
        else:
            line.at_work[turn] = line.seen
        return turn

    def pause(self, turn: Turn) -> None:
        """Lend a turn to others, who get it only once this request really waits."""
        line = self._lines[turn.organization_id]
        if line.at_work.pop(turn, None) is not None and line.waiting:
            asyncio.get_running_loop().call_soon(self._admit, line)

    async def resume(self, turn: Turn) -> None:
        """Wait for a turn that was lent, before the requests that have not begun."""
        line = self._line(turn.organization_id)
        if self._has_room(line):
            line.at_work[turn] = line.seen
        else:
            waiter = self._new_waiter(turn, until=inf)
            line.waiting.appendleft(waiter)
            await self._wait(waiter, line)

    async def pace(self, turn: Turn, *, received: int) -> None:
        """Wait until an organisation beside others may send more than the `received` bytes."""
        if not self.has_others(turn.organization_id):
            return
        line = self._line(turn.organization_id)
        line.received.take(line.seen, received)
        wait_s = line.received.wait_s(line.seen, wanted=0)
        if wait_s > limits.TURNS_TICK_S:
            await asyncio.sleep(wait_s)

    def has_others(self, organization_id: OrganizationId | None) -> bool:
        """Return True if another organisation has needed the process lately."""
        return len(self._lines) > (organization_id in self._lines)

    def leave(self, turn: Turn) -> None:
        """Give a turn back; idempotent."""
        line = self._lines.get(turn.organization_id)
        if line is not None and line.at_work.pop(turn, None) is not None:
            self._see(turn.organization_id, line)
            self._admit(line)

    def _new_waiter(self, turn: Turn, *, until: float) -> _Waiter:
        loop = asyncio.get_running_loop()
        self._start_ticking(loop)
        return _Waiter(turn, loop.create_future(), until)

    async def _wait(self, waiter: _Waiter, line: _Line) -> None:
        try:
            await waiter.future
        except asyncio.CancelledError:
            # It may have been let in a moment before.
            if waiter in line.waiting:
                line.waiting.remove(waiter)
            self.leave(waiter.turn)
            raise

    def _line(self, organization_id: OrganizationId) -> _Line:
        """Return the queue of an organisation, which is seen now."""
        line = self._lines.get(organization_id)
        if line is None:
            received = TokenBucket(0.0, self._bounds.bytes_per_s, debt_max=inf)
            line = self._lines[organization_id] = _Line(received)
        self._see(organization_id, line)
        self._forget_idle(line.seen)
        return line

    def _see(self, organization_id: OrganizationId, line: _Line) -> None:
        line.seen = asyncio.get_running_loop().time()
        self._lines.move_to_end(organization_id)

    def _forget_idle(self, now: float) -> None:
        while self._lines:
            oldest, line = next(iter(self._lines.items()))
            if now - line.seen <= self._bounds.neighbour_s:
                return
            if line.is_busy:
                self._see(oldest, line)
            else:
                del self._lines[oldest]

    def _has_room(self, line: _Line) -> bool:
        count = len(line.at_work)
        if count < self._bounds.shared_max:
            return True
        if count >= self._bounds.alone_max:
            return False
        if len(self._lines) == 1:
            return True
        # What takes long by nature must not keep the organisation's short requests out.
        now = asyncio.get_running_loop().time()
        recent = sum(began > now - self._bounds.long_s for began in line.at_work.values())
        return recent < self._bounds.shared_max

    def _admit(self, line: _Line) -> None:
        while line.waiting and self._has_room(line):
            waiter = line.waiting.popleft()
            if not waiter.future.done():
                line.at_work[waiter.turn] = asyncio.get_running_loop().time()
                waiter.future.set_result(None)

    def _start_ticking(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            loop.call_later(self._bounds.tick_s, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Admit in queues that nobody leaves: neighbours become idle, and requests become long."""
        now = loop.time()
        self._is_ticking = False
        self._forget_idle(now)
        for line in [*self._lines.values()]:
            self._refuse_late(line, now)
            self._admit(line)
        if any(line.waiting for line in self._lines.values()):
            self._start_ticking(loop)

    def _refuse_late(self, line: _Line, now: float) -> None:
        late = [waiter for waiter in line.waiting if now >= waiter.until]
        for waiter in late:
            line.waiting.remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(TooManyAtOnceError(waiting=len(line.waiting)))


class Turn:
    """The right of one request to be at work."""

    __slots__ = ("_turns", "organization_id")

    def __init__(self, turns: Turns, organization_id: OrganizationId) -> None:
        self._turns = turns
        self.organization_id = organization_id

    def leave(self) -> None:
        """Give the turn back; idempotent."""
        self._turns.leave(self)

    def pause(self) -> None:
        """Lend the turn to others."""
        self._turns.pause(self)

    async def pace(self, *, received: int) -> None:
        """Wait until the organisation may send more."""
        await self._turns.pace(self, received=received)

    async def resume(self) -> None:
        """Wait for a turn that was lent."""
        await self._turns.resume(self)

"""Receive the body of a request within its bound, and reserve the memory that it needs before.

A request whose credential does not allow it is refused before any of this: reading costs memory.
An organisation may reserve half of the memory, or one request that is larger. Requests that have to
wait are served in the order of what their organisation has reserved, then of arrival; after a bounded
time they are refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Self, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from engram import limits
from engram.bodies.json_text import is_light
from engram.errors import InvalidRequestError, RequestTooLargeError, ServerBusyError, release_frames

T = TypeVar("T")

FIRST_ROOM = 1 << 20
"""Bytes of the first buffer of a body without a length; it is doubled as needed."""

WORK_FACTOR = limits.BODIES_WORK_BYTES_MAX // limits.CALL_BYTES_MAX
"""Bytes of memory for each byte of a body that is worked on."""

OPERATOR = "operator"
_CONTENT_LENGTH = b"content-length"


@dataclass(eq=False, slots=True)
class Reservation:
    """What one request has reserved; given back when its block ends."""

    budget: BodyBudget
    owner: str
    cost: int = 0

    async def take(self, cost: int) -> None:
        """Reserve memory, once for each request; wait while there is not enough of it.

        Raises:
            ServerBusyError: there was not enough in time.
        """
        await self.budget.take(self.owner, cost)
        self.cost = cost

    def shrink(self, cost: int) -> None:
        """Give back what turned out not to be needed."""
        if cost < self.cost:
            self.budget.give_back(self.owner, self.cost - cost)
            self.cost = cost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shrink(0)


@dataclass(eq=False, slots=True)
class _Waiter:
    owner: str
    cost: int
    granted: asyncio.Future[None] = field(default_factory=asyncio.Future[None])


class BodyBudget:
    """Grants reservations; belongs to one event loop."""

    def __init__(self, bytes_max: int, *, wait_s: float = limits.BODY_WAIT_S) -> None:
        self._bytes_max = bytes_max
        self._share = bytes_max // 2
        self._wait_s = wait_s
        self._taken = Counter[str]()
        self._waiting = list[_Waiter]()

    @property
    def taken(self) -> int:
        """How much is reserved now."""
        return self._taken.total()

    def reservation(self, owner: str) -> Reservation:
        """Return an empty reservation of a request of `owner`."""
        return Reservation(self, owner)

    async def take(self, owner: str, cost: int) -> None:
        """Reserve `cost` for `owner`; one alone may take more than there is.

        Raises:
            ServerBusyError: there was not enough in time.
        """
        waiter = _Waiter(owner, cost)
        self._waiting.append(waiter)
        self._grant()
        if waiter.granted.done():
            return
        try:
            async with asyncio.timeout(self._wait_s):
                await waiter.granted
        except BaseException as exc:
            self._withdraw(waiter)
            if isinstance(exc, TimeoutError):
                raise ServerBusyError from exc
            raise

    def give_back(self, owner: str, cost: int) -> None:
        """Return memory to the budget and let those who wait have it."""
        self._taken[owner] -= cost
        if self._taken[owner] <= 0:
            del self._taken[owner]
        self._grant()

    def _grant(self) -> None:
        while (waiter := self._next_in_turn()) is not None:
            self._waiting.remove(waiter)
            self._taken[waiter.owner] += waiter.cost
            waiter.granted.set_result(None)

    def _next_in_turn(self) -> _Waiter | None:
        """Return who is to be served now: whose organisation has least at work, if there is room."""
        # Of several that time out at once, those after the first are cancelled and still listed.
        present = [waiter for waiter in self._waiting if not waiter.granted.done()]
        within_share = [waiter for waiter in present if not self._is_past_share(waiter)]
        first = min(within_share, key=lambda waiter: self._taken[waiter.owner], default=None)
        # A smaller request must not overtake, or the largest would starve.
        if first is None or (self.taken and self.taken + first.cost > self._bytes_max):
            return None
        return first

    def _is_past_share(self, waiter: _Waiter) -> bool:
        taken = self._taken[waiter.owner]
        return taken > 0 and taken + waiter.cost > self._share

    def _withdraw(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            self._grant()
        elif waiter.granted.done() and not waiter.granted.cancelled():
            self.give_back(waiter.owner, waiter.cost)


class Lane:
    """Bodies of about one size, which wait for each other and for no others.

    Received bodies and those at work are counted apart, so that a slow client holds up no work.
    """

    def __init__(self, *, bytes_max: int, work_bytes_max: int) -> None:
        self.received = BodyBudget(bytes_max)
        self.worked_on = BodyBudget(work_bytes_max)


class Bodies:
    """The bodies at work in one process."""

    def __init__(self) -> None:
        self._small = Lane(
            bytes_max=limits.SMALL_BODIES_BYTES_MAX,
            work_bytes_max=limits.SMALL_BODIES_WORK_BYTES_MAX,
        )
        self._large = Lane(
            bytes_max=limits.BODIES_BYTES_MAX, work_bytes_max=limits.BODIES_WORK_BYTES_MAX
        )
        self._parsers = anyio.CapacityLimiter(limits.PARSERS_MAX)

    @asynccontextmanager
    async def receive(
        self, scope: Scope, receive: Receive, *, bytes_max: int, field: str = "body"
    ) -> AsyncGenerator[bytes | bytearray]:
        """Yield the whole body of a request; its memory stays reserved until the block ends.

        Args:
            field: what a refusal calls the body.

        Raises:
            InvalidRequestError: its announced length is not a number.
            RequestTooLargeError: it is larger than `bytes_max`.
            ServerBusyError: too many large requests are at work.
            ClientDisconnect: the client left before its body was complete.
        """
        length = announced_length(scope)
        # A body without a length reserves its maximum at once: if several reserved step by step, they
        # could deadlock.
        most = bytes_max if length is None else length
        check_length(most, bytes_max=bytes_max, field=field)
        lane = self._small if most <= limits.CONTROL_BODY_BYTES_MAX else self._large
        owner = _owner(scope)
        received = lane.received.reservation(owner)
        if length is not None and length <= limits.BODY_UNRESERVED_BYTES_MAX:
            yield await _read(receive, received, bytes_max=bytes_max, field=field)
            return
        with received:
            if length is not None:
                await received.take(length)
            data = await _read(receive, received, bytes_max=bytes_max, field=field)
            received.shrink(len(data))
            with lane.worked_on.reservation(owner) as work, _cleared(data):
                if len(data) > limits.BODY_UNRESERVED_BYTES_MAX:
                    await work.take(WORK_FACTOR * min(len(data), limits.CALL_BYTES_MAX))
                yield data

    async def parse(self, data: bytes | bytearray, work: Callable[[], T]) -> T:
        """Return what `work` makes of a body; unless it is light, on a thread."""
        if is_light(data):
            return work()
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._parsers)
        except Exception as exc:
            release_frames(exc)  # among them the texts that were decoded
            raise


def bodies_of(scope: Scope) -> Bodies:
    """Return the bodies at work in the process that serves this request."""
    return scope["state"]["bodies"]


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a body that was received already, and then whatever else comes."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def announced_length(scope: Scope) -> int | None:
    """Return the length of a request's body, None when it comes in pieces until its end.

    Raises:
        InvalidRequestError: it is not one number.
    """
    values = [value for name, value in scope["headers"] if name == _CONTENT_LENGTH]
    if not values:
        return None
    # Of more digits the server itself would have made nothing.
    if len(values) > 1 or not values[0].isdigit() or len(values[0]) > len(str(2**64)):
        raise InvalidRequestError("must be one number", field="Content-Length")
    return int(values[0])


def check_length(length: int, *, bytes_max: int, field: str) -> None:
    """Refuse a body that is larger than its bound.

    Raises:
        RequestTooLargeError: it is.
    """
    if length > bytes_max:
        raise RequestTooLargeError(field, limit=bytes_max, actual=length, unit="bytes")


async def _read(
    receive: Receive, reservation: Reservation, *, bytes_max: int, field: str
) -> bytes | bytearray:
    data, size = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        is_last = not message.get("more_body", False)
        if is_last and not size:
            check_length(len(piece), bytes_max=bytes_max, field=field)
            return piece
        size += len(piece)
        check_length(size, bytes_max=bytes_max, field=field)
        if size > limits.BODY_UNRESERVED_BYTES_MAX and not reservation.cost:
            await reservation.take(bytes_max)
        _put(data, piece, size, room=reservation.cost)
        if is_last:
            del data[size:]
            return data


@contextmanager
def _cleared(data: bytes | bytearray) -> Generator[None]:
    """Free a body when the block ends: a failure may keep frames, and so the body, for long."""
    try:
        yield
    finally:
        if isinstance(data, bytearray):
            data.clear()


def _put(data: bytearray, piece: bytes, size: int, *, room: int) -> None:
    """Add a piece that makes a body `size` long.

    Room is made at once or doubled: a block that grows step by step leaves holes in the heap.
    """
    if size > len(data):
        data.extend(bytes(min(max(room, size), max(size, 2 * len(data), FIRST_ROOM)) - len(data)))
    data[size - len(piece) : size] = piece


def _owner(scope: Scope) -> str:
    principal = scope["state"].get("principal")
    return OPERATOR if principal is None else principal.organization_id

"""Reads the body of a request within its bound, and reserves the memory that it will need before.

A request whose credential does not allow it is refused before any of this: reading costs memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from engram import limits
from engram.errors import InvalidRequestError, RequestTooLargeError
from engram.transport.bodies.budget import BodyBudget, Reservation
from engram.transport.bodies.scan import is_light

T = TypeVar("T")

UNRESERVED_BYTES_MAX = 65_536
"""A body up to here is read without a reservation: a connection may have as much in its buffers."""

FIRST_ROOM = 1 << 20

OPERATOR = "operator"
_CONTENT_LENGTH = b"content-length"


WORK_FACTOR = limits.BODIES_WORK_BYTES_MAX // limits.CALL_BYTES_MAX


class Lane:
    """Bodies of about one size, which wait for each other and for no others.

    What is received and what is worked on are counted apart: a client that sends slowly holds up
    nobody's work.
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
        # How large one without a length becomes is known to its client alone. If it reserved memory
        # step by step it might wait for others like it, and none of them would ever finish.
        most = bytes_max if length is None else length
        check_length(most, bytes_max=bytes_max, field=field)
        lane = self._small if most <= limits.CONTROL_BODY_BYTES_MAX else self._large
        owner = _owner(scope)
        received = lane.received.reservation(owner)
        if length is not None and length <= UNRESERVED_BYTES_MAX:
            yield await _read(receive, received, bytes_max=bytes_max, field=field)
            return
        with received:
            if length is not None:
                await received.take(length)
            data = await _read(receive, received, bytes_max=bytes_max, field=field)
            received.shrink(len(data))
            with lane.worked_on.reservation(owner) as work, _cleared(data):
                if len(data) > UNRESERVED_BYTES_MAX:
                    await work.take(WORK_FACTOR * min(len(data), limits.CALL_BYTES_MAX))
                yield data

    async def parse(self, data: bytes | bytearray, work: Callable[[], T]) -> T:
        """Return what `work` makes of a body; unless it is light, on a thread."""
        if is_light(data):
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._parsers)


def bodies_of(scope: Scope) -> Bodies:
    """Return the bodies at work in the process that serves this request."""
    return scope["state"]["bodies"]


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
        if size > UNRESERVED_BYTES_MAX and not reservation.cost:
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

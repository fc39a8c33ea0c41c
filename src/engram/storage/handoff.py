"""Bring the outcome of a thread's work back to the event loop that waits for it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Ticket(Generic[T]):
    """Somebody in an event loop who waits for a thread."""

    __slots__ = ("_error", "_value", "future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self._value: T
        self._error: Exception | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits any more."""
        return self.future.cancelled()

    def succeed(self, value: T) -> None:
        """Note the result; nobody learns it before `deliver`."""
        self._value = value

    def fail(self, error: Exception) -> None:
        """Note the failure, in place of any result."""
        if isinstance(error, StopIteration):
            # A future cannot carry it, and it would never be meant for the waiter.
            error = RuntimeError("work ran past the end of an iterator")
        self._error = error

    def settle(self) -> None:
        """Tell the waiter; to be called in its event loop."""
        if self.future.done():
            return
        if self._error is None:
            self.future.set_result(self._value)
        else:
            self.future.set_exception(self._error)


def deliver(tickets: Sequence[Ticket[Any]]) -> None:
    """Settle every ticket in its own event loop, waking each loop once."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Ticket[Any]]] = defaultdict(list)
    for ticket in tickets:
        by_loop[ticket.loop].append(ticket)
    for loop, settled in by_loop.items():
        # A loop that has been closed has no waiters left.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_all, settled)


def _settle_all(tickets: Sequence[Ticket[Any]]) -> None:
    for ticket in tickets:
        ticket.settle()

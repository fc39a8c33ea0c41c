"""Memory of the large requests at work in one process, reserved before a body is read.

An organisation may have half of it at work, or one request that is larger. Whoever has to wait is served in the order of what their organisation
has at work, then of arrival; after a bounded time they are refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from engram import limits
from engram.errors import ServerBusyError


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shrink(0)


@dataclass(eq=False, slots=True)
class _Waiter:
    owner: str
    cost: int
    granted: asyncio.Future[None] = field(default_factory=asyncio.Future[None])


class BodyBudget:
    """Grants reservations; belongs to one event loop."""

    def __init__(
        self,
        bytes_max: int,
        *,
        wait_s: float = limits.BODY_WAIT_S,
    ) -> None:
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
        # Nobody overtakes them for being smaller, or the largest would never have its turn.
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

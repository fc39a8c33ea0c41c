"""Remember the organisations that this process has open, the last used ones of them."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

from engram import limits
from engram.model.ids import OrganizationId

_Opening: TypeAlias = tuple[asyncio.AbstractEventLoop, OrganizationId]


class Opened(Protocol):
    """An organisation that is open."""

    @property
    def is_gone(self) -> bool:
        """Whether it was seen to be deleted."""
        ...

    def let_go(self) -> None:
        """Release what it holds, without waiting; who still has it may go on using it."""
        ...


OpenedT = TypeVar("OpenedT", bound=Opened)


class OpenOrganizations(Generic[OpenedT]):
    """Organisations by id, each opened once however many ask for it at the same time."""

    def __init__(self, open_one: Callable[[OrganizationId], Awaitable[OpenedT]]) -> None:
        self._open_one = open_one
        self._lock = threading.Lock()
        self._opened: OrderedDict[OrganizationId, OpenedT] = OrderedDict()
        self._opening: dict[_Opening, asyncio.Task[OpenedT]] = {}

    async def get(self, organization_id: OrganizationId) -> OpenedT:
        """Return an organisation, opened if it is not.

        Raises:
            EngramError: what opening it raises.
        """
        with self._lock:
            found = self._opened.get(organization_id)
            if found is not None and not found.is_gone:
                self._opened.move_to_end(organization_id)
                return found
            self._opened.pop(organization_id, None)
        if found is not None:
            found.let_go()
        return await self._open_once(organization_id)

    def find(self, organization_id: OrganizationId) -> OpenedT | None:
        """Return an organisation if it is open."""
        with self._lock:
            return self._opened.get(organization_id)

    def take_all(self) -> list[OpenedT]:
        """Return all that are open, and forget them."""
        with self._lock:
            opened = [*self._opened.values()]
            self._opened.clear()
        return opened

    async def _open_once(self, organization_id: OrganizationId) -> OpenedT:
        """Open an organisation, together with everyone who asks for it meanwhile."""
        key = (asyncio.get_running_loop(), organization_id)
        task = self._opening.get(key)
        if task is None:
            task = asyncio.create_task(self._open(organization_id))
            self._opening[key] = task
            task.add_done_callback(partial(self._forget_opening, key))
        # Shielded: one waiter's cancellation is not the others'.
        return await asyncio.shield(task)

    async def _open(self, organization_id: OrganizationId) -> OpenedT:
        opened = await self._open_one(organization_id)
        self._keep(organization_id, opened)
        return opened

    def _forget_opening(self, key: _Opening, task: asyncio.Task[OpenedT]) -> None:
        del self._opening[key]
        if not task.cancelled():
            # Taken note of here: when every waiter has left, nobody else does.
            task.exception()

    def _keep(self, organization_id: OrganizationId, opened: OpenedT) -> None:
        """Remember an open organisation; let go of the one longest unused, if there are many."""
        with self._lock:
            replaced = [self._opened.pop(organization_id, None)]
            self._opened[organization_id] = opened
            while len(self._opened) > limits.OPEN_ORGANIZATIONS_MAX:
                replaced.append(self._opened.popitem(last=False)[1])
        for organization in filter(None, replaced):
            organization.let_go()

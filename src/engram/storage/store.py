"""The store of an installation, whatever its database, and the cache of its open organisations.

Every method of its stores is one round trip: a write is one durable transaction, a read sees one
consistent snapshot. All errors are those of `engram.errors`; a driver's exception never leaves its
backend.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from engram import limits
from engram.model.ids import OrganizationId
from engram.model.status import DueWork, Finding, KeysChanged, WorkKind

if TYPE_CHECKING:
    from engram.storage.control.store import ControlStore
    from engram.storage.organization import OrganizationStore


class Store(Protocol):
    """The store of an installation."""

    @property
    def control(self) -> ControlStore:
        """Organisations and keys."""
        ...

    async def open(self) -> None:
        """Create the schema or apply pending migrations. Idempotent, and safe beside other processes.

        Raises:
            StoreNewerError: the store was written by a newer Engram.
            StoreReadOnlyError, StoreCorruptError, StorageError: it cannot be used.
        """
        ...

    async def organization(self, organization_id: OrganizationId) -> OrganizationStore:
        """Return the store of one existing organisation.

        Raises:
            NotFoundError: the id is unknown.
        """
        ...

    async def check(self, *, by_writing: bool) -> None:
        """Read from the store; with `by_writing` also commit a write that changes nothing.

        Raises:
            StorageError: it cannot be used: gone, damaged, full, read-only.
        """
        ...

    async def list_homes_away(self) -> Sequence[str]:
        """Return the names of homes that cannot be reached; their organisations cannot be used."""
        ...

    async def claim_due(
        self, kinds: Sequence[WorkKind], *, lease: timedelta, limit: int
    ) -> Sequence[DueWork]:
        """Lease background work that is due, about `limit` at most; whoever has done it settles it.

        It costs as much as there is due work, however many organisations have none.
        """
        ...

    def changes(self) -> AsyncIterator[KeysChanged]:
        """Yield the notifications of other processes from now on; none if the database has none.

        These are keys that any process, this one included, has revoked or removed. Notifications
        during an outage are missed; all keys count as changed then. It raises nothing.
        """
        ...

    async def check_files(self) -> Sequence[Finding]:
        """Return what is wrong with files that belong to no organisation, or to all of them."""
        ...

    async def close(self) -> None:
        """Finish what was accepted and release everything."""
        ...


_Opening: TypeAlias = tuple[asyncio.AbstractEventLoop, OrganizationId]


class Opened(Protocol):
    """An organisation that is open."""

    @property
    def is_gone(self) -> bool:
        """Whether it is known to be deleted."""
        ...

    def let_go(self) -> None:
        """Release its resources without waiting; callers that still have it may go on using it."""
        ...


OpenedT = TypeVar("OpenedT", bound=Opened)


class OpenOrganizations(Generic[OpenedT]):
    """LRU cache of open organisations by id; concurrent requests for one open it once."""

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

    def drop(self, organization_id: OrganizationId) -> None:
        """Have an organisation opened again at its next use."""
        with self._lock:
            dropped = self._opened.pop(organization_id, None)
        if dropped is not None:
            dropped.let_go()

    def take_all(self) -> list[OpenedT]:
        """Return all that are open, and empty the cache."""
        with self._lock:
            opened = [*self._opened.values()]
            self._opened.clear()
        return opened

    async def _open_once(self, organization_id: OrganizationId) -> OpenedT:
        """Open an organisation, or wait for the task that does."""
        key = (asyncio.get_running_loop(), organization_id)
        task = self._opening.get(key)
        if task is None:
            task = asyncio.create_task(self._open(organization_id))
            self._opening[key] = task
            task.add_done_callback(partial(self._forget_opening, key))
        # Shielded: if one caller is cancelled, the others still wait for the task.
        return await asyncio.shield(task)

    async def _open(self, organization_id: OrganizationId) -> OpenedT:
        opened = await self._open_one(organization_id)
        self._keep(organization_id, opened)
        return opened

    def _forget_opening(self, key: _Opening, task: asyncio.Task[OpenedT]) -> None:
        del self._opening[key]
        if not task.cancelled():
            # Retrieved, or asyncio would log it when every caller was cancelled.
            task.exception()

    def _keep(self, organization_id: OrganizationId, opened: OpenedT) -> None:
        """Add an open organisation; evict the least recently used ones if there are too many."""
        with self._lock:
            replaced = [self._opened.pop(organization_id, None)]
            self._opened[organization_id] = opened
            while len(self._opened) > limits.OPEN_ORGANIZATIONS_MAX:
                replaced.append(self._opened.popitem(last=False)[1])
        for organization in filter(None, replaced):
            organization.let_go()

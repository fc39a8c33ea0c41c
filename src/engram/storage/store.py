"""A whole installation, on whichever database it is.

Every method of its stores is one round trip: a write is one durable transaction, a read sees one
consistent snapshot. All errors are of `engram.errors`;
a driver's exception never leaves its backend.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from engram.model.changes import Change
from engram.model.ids import OrganizationId

if TYPE_CHECKING:
    from engram.storage.control.store import ControlStore
    from engram.storage.organization import OrganizationStore


class Store(Protocol):
    """A whole installation."""

    @property
    def control(self) -> ControlStore:
        """Organisations and keys."""
        ...

    async def open(self) -> None:
        """Create or migrate what is needed. Idempotent, and safe beside other processes.

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

    def announce(self, organization_id: OrganizationId) -> None:
        """Notify other processes that an organisation has new background work.

        It returns at once, and what it tells may be lost: work is found without it, only later.
        """
        ...

    def changes(self) -> AsyncIterator[Change]:
        """Yield what other processes tell, from now on; nothing where they cannot.

        That is the work they announce, and the keys that were revoked or removed by any process, this
        one among them. What is told while this process is cut off from the others is missed; all
        keys count as changed then. It raises nothing.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted and release everything."""
        ...

"""Proving that a store is whole, and mending what can be derived."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from engram.errors import StorageError
from engram.model.access import Organization
from engram.model.status import Finding
from engram.storage.store import Store


class Doctor:
    """Checks organisations one after the other, so that memory stays bounded."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def patients(self) -> Sequence[Organization]:
        """Return the organisations to examine."""
        return await self._store.control.list_organizations()

    async def examine(self, organization: Organization) -> AsyncIterator[Finding]:
        """Yield everything wrong with one organisation's store."""
        try:
            store = await self._store.organization(organization.id)
            async for finding in store.verify():
                yield finding
        except StorageError as exc:
            yield Finding(
                organization_id=organization.id,
                check="file",
                message=exc.message,
                repairable=False,
            )

    async def repair(self, organization: Organization) -> int:
        """Rebuild what is derived in one organisation's store; return what was rebuilt."""
        store = await self._store.organization(organization.id)
        return await store.repair()

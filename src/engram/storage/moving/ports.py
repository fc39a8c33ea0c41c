"""What the two sides of a move have to offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engram.model.ids import OrganizationId
from engram.storage.rows.database import Connection, Database
from engram.storage.tenant import Tenant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a database makes of texts."""

    text: bool
    """Whether it tells texts from bytes in one column."""
    nul: bool
    """Whether a text may hold the character NUL."""


class Reader(Protocol):
    """A database that is only read."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` makes of one snapshot, as `Database` says it."""
        ...


class Source(Protocol):
    """The database that organisations are copied from, and that is not changed."""

    @property
    def control(self) -> Reader:
        """The control tables."""
        ...

    def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AbstractAsyncContextManager[Reader | None]:
        """Open the rows of an organisation, for reading; None if it never had any.

        Raises:
            StoreCorruptError: it had some.
        """
        ...


class Target(Protocol):
    """The database that organisations are copied to."""

    @property
    def control(self) -> Database:
        """The control tables."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether there is no store yet, and nothing to read; only where none was to be made."""
        ...

    @property
    def keeping(self) -> Keeping:
        """What it makes of texts."""
        ...

    def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AbstractAsyncContextManager[Tenant]:
        """Open an organisation that the control tables do not know yet; make it if it is new."""
        ...

    async def skip_numbers(self, tenant: Tenant, numbers: Mapping[str, int]) -> None:
        """Have the rows of each table that counts its rows get higher numbers than these."""
        ...

"""The interface of a database: transactions, and connections that run statements in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement has changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A transaction, used by one thread."""

    def execute(self, statement: str, values: Mapping[str, Any] | Sequence[Any] = ..., /) -> Cursor:
        """Run a statement with named parameters, `:name`."""
        ...

    def executemany(
        self, statement: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]], /
    ) -> object:
        """Run a statement once for each row of values."""
        ...


class Database(Protocol):
    """A database that holds one organisation's rows.

    Work is a function of a connection. It must not keep the connection, begin or end a
    transaction, or return a cursor that is still to be read.
    """

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns for one snapshot.

        Raises:
            NotFoundError: the organisation was deleted, or `work` says so.
            StorageError: the database failed.
        """
        ...

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns once its changes are durable; if it raises, it left none.

        The writers of an organisation are serialised, between processes too, and each sees the changes
        of those before it. Work that is cancelled before it began is skipped, never done in part.

        Raises:
            NotFoundError: the organisation was deleted, or `work` says so.
            StorageError: the database failed, and nothing was stored.
        """
        ...

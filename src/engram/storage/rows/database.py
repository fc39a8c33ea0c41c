"""What the tables ask of a database: a connection for statements, and transactions to use it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Cursor(Protocol):
    """What a statement has found."""

    @property
    def rowcount(self) -> int:
        """How many rows a statement has changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """One transaction of one thread."""

    def execute(self, statement: str, values: Mapping[str, Any] | Sequence[Any] = ..., /) -> Cursor:
        """Run a statement; `:name` in it stands for a value."""
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
        """Return what `work` makes of one snapshot.

        Raises:
            NotFoundError: the organisation was deleted, or `work` says so.
            StorageError: the database failed.
        """
        ...

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns once its changes are durable; if it raises, it left none.

        One work at a time writes in an organisation, of whichever process it is, and sees what all
        before it have left. Who is cancelled before his work began has it skipped, never done in
        part.

        Raises:
            NotFoundError: the organisation was deleted, or `work` says so.
            StorageError: the database failed, and nothing was stored.
        """
        ...

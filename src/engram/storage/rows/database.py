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


class RemoteConnection:
    """A `Connection` to a server: an answer that is not needed yet need not be waited for.

    Answers can be read after other statements, and after the transaction.
    """

    def ask_ahead(
        self,
        statement: str,
        values: Mapping[str, Any],
        /,
        *,
        instead_of: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> None:
        """Run a statement whose answer the next `execute` of the same, or `instead_of` others, returns.

        It comes with the next answer that is read. In between, nothing may be written that would change it.
        """
        raise NotImplementedError


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

    async def rewrite(self) -> tuple[str, ...]:
        """Write files anew, so that their free space has nothing of what was deleted; return their names.

        A database whose files are a server's returns none: `still_held` says what it keeps, and how long.

        Raises:
            StoreBusyError: others hold a file all the time; try again later.
        """
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files; none if they are a server's."""
        ...

    @property
    def still_held(self) -> tuple[str, ...]:
        """What the database keeps of deleted rows, in words; empty if `rewrite` leaves nothing."""
        ...

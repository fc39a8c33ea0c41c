"""The words of an organisation's messages: a row for each message and word it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engram.errors import StoreCorruptError
from engram.storage.postings.index import MessageWords, Postings, WordLengths, WordStatistics
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/words.sql")


_ENTRIES_READ = 20_000
_MASK = (1 << 64) - 1


class PostingCheck:
    """The `WordCheck` of a PostgreSQL database."""

    def __init__(self, connection: Connection, *, organization_id: int) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._rows = self._words = self._sum = self._missing = self._wrong = 0

    def expect(self, rows: Iterable[MessageWords]) -> None:
        expected = {row.key: words_in(row) for row in rows}
        lengths = {key: (len(telling), len(stops)) for key, (telling, stops) in expected.items()}
        self._compare_lengths(lengths)
        self._rows += len(lengths)
        self._words += sum(map(sum, lengths.values()))
        for key, (telling, stops) in expected.items():
            held = Counter(telling + stops)
            self._sum += sum(hash((term, key, count)) for term, count in held.items())

    def faults(self) -> Iterator[str]:
        (present,) = self._ask("count").fetchone()
        for count, what in (
            (self._missing, "are missing from"),
            (present - self._rows + self._missing, "should not be in"),
            (self._wrong, "have another number of words in"),
        ):
            if count:
                yield f"{count} messages {what} the word index"
        if self._ask("statistics").fetchone() != (self._rows, self._words):
            yield "the word index miscounts its rows or words"
        if self._sum & _MASK != self._stored_sum() & _MASK:
            yield "the word index holds other words than the messages"

    def _compare_lengths(self, expected: dict[int, tuple[int, int]]) -> None:
        found = {key: tuple(rest) for key, *rest in self._ask("lengths", keys=[*expected])}
        self._missing += len(expected) - len(found)
        self._wrong += sum(expected[key] != length for key, length in found.items())

    def _stored_sum(self) -> int:
        total, term, key = 0, "", -1
        while rows := self._entries_after(term, key):
            total += sum(map(hash, rows))
            term, key, _ = rows[-1]
        return total

    def _entries_after(self, term: str, key: int) -> Sequence[tuple[str, int, int]]:
        return self._ask("postings_after", term=term, key=key, limit=_ENTRIES_READ).fetchall()

    def _ask(self, name: str, **values: Any) -> Any:
        asked = {"organization_id": self._organization_id, **values}
        return self._connection.execute(_SQL[name], asked)


def words_in(row: MessageWords) -> tuple[list[str], list[str]]:
    """Return the words of a message: those that tell something, and stop words."""
    telling, stops = (
        [word for word in part.split(" ") if word] for part in (row.telling, row.stops)
    )
    return telling, stops


class PostingWordIndex:
    """The `WordIndex` of a PostgreSQL database."""

    def add(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        lists = _Lists.of(rows)
        values = {"organization_id": organization_id, "generation_step": int(is_next)}
        if not connection.execute(_SQL["add_messages"], values | lists.lengths).rowcount:
            raise _lost()
        connection.execute(_SQL["add_postings"], values | lists.postings)

    def remove(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        lists = _Lists.of(rows)
        values = {"organization_id": organization_id, "generation_step": int(is_next)}
        connection.execute(_SQL["remove_messages"], values | lists.lengths)
        connection.execute(_SQL["remove_postings"], values | lists.postings)

    def begin_next(self, connection: Connection, *, organization_id: int) -> None:
        self.drop_next(connection, organization_id=organization_id)

    def take_over(self, connection: Connection, *, organization_id: int) -> None:
        connection.execute(_SQL["take_over"], {"organization_id": organization_id})
        self.drop_next(connection, organization_id=organization_id)

    def drop_next(self, connection: Connection, *, organization_id: int) -> None:
        for name in ("restore_row", "forget_next", "drop_lengths", "drop_postings"):
            connection.execute(_SQL[name], {"organization_id": organization_id})

    def statistics(self, connection: Connection, *, organization_id: int) -> WordStatistics:
        row = connection.execute(
            _SQL["statistics"], {"organization_id": organization_id}
        ).fetchone()
        if row is None:
            raise _lost()
        return WordStatistics(*row)

    def count(self, connection: Connection, *, organization_id: int) -> int:
        return connection.execute(_SQL["count"], {"organization_id": organization_id}).fetchone()[0]

    def postings(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Postings:
        from engram.storage.postgres.word_postings import (  # noqa: PLC0415 a store that is not searched does without numpy
            read_postings,
        )

        return read_postings(connection, terms, organization_id=organization_id)

    def lengths(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterator[WordLengths]:
        values = {"organization_id": organization_id, "keys": [*map(int, keys)]}
        return (WordLengths(*row) for row in connection.execute(_SQL["lengths"], values))

    def check(self, connection: Connection, *, organization_id: int) -> PostingCheck:
        return PostingCheck(connection, organization_id=organization_id)


def _lost() -> StoreCorruptError:
    return StoreCorruptError("the state of the word index is lost: run `engram doctor --repair`")


@dataclass(frozen=True, slots=True)
class _Lists:
    """Messages as columns, by the names they have in statements."""

    lengths: dict[str, list[int]]
    postings: dict[str, list[int] | list[str]]

    @classmethod
    def of(cls, rows: Iterable[MessageWords]) -> _Lists:
        lengths: list[tuple[int, int, int]] = []
        postings: list[tuple[int, int, str]] = []
        for row in rows:
            telling, stops = words_in(row)
            lengths.append((row.key, len(telling), len(stops)))
            held = Counter(telling + stops)
            postings += ((row.key, count, term) for term, count in held.items())
        return cls(
            {
                "keys": [key for key, _, _ in lengths],
                "telling": [telling for _, telling, _ in lengths],
                "stops": [stops for _, _, stops in lengths],
            },
            {
                "keys": [key for key, _, _ in postings],
                "occurrences": [count for _, count, _ in postings],
                "terms": [term for _, _, term in postings],
            },
        )

"""The inverted index of an organisation's messages: a row for each message and word it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from engram.errors import StoreCorruptError
from engram.storage.postings import index
from engram.storage.postings.index import (
    WORDS_LOST,
    MessageWords,
    Postings,
    WordLengths,
    WordStatistics,
)
from engram.storage.rows.database import Connection, RemoteConnection
from engram.storage.rows.queries import load_queries
from engram.text.analyse import is_prefix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

_SQL = load_queries("postgres/word_index.sql")
_ENTRIES_READ = 20_000


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
        values = {"organization_id": organization_id, "generation_step": int(is_next)}
        lengths, postings = _columns(rows)
        words = sum(lengths["telling"]) + sum(lengths["stops"])
        sizes = {"more_texts": len(lengths["keys"]), "more_words": words}
        connection.execute(_SQL["count_added"], values | sizes)
        connection.execute(_SQL["add_lengths"], values | lengths)
        connection.execute(_SQL["add_postings"], values | postings)

    def remove(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        values = {"organization_id": organization_id, "generation_step": int(is_next)}
        lengths, postings = _columns(rows)
        connection.execute(_SQL["remove_messages"], values | lengths)
        connection.execute(_SQL["remove_postings"], values | postings)

    def begin_next(self, connection: Connection, *, organization_id: int) -> None:
        self.drop_next(connection, organization_id=organization_id)

    def take_over(self, connection: Connection, *, organization_id: int) -> None:
        connection.execute(_SQL["take_over"], {"organization_id": organization_id})
        self.drop_next(connection, organization_id=organization_id)

    def drop_next(self, connection: Connection, *, organization_id: int) -> None:
        for name in ("restore_row", "forget_next", "drop_lengths", "drop_postings"):
            connection.execute(_SQL[name], {"organization_id": organization_id})

    def statistics(self, connection: Connection, *, organization_id: int) -> WordStatistics:
        values = {"organization_id": organization_id}
        row = connection.execute(_SQL["statistics"], values).fetchone()
        if row is None:
            raise StoreCorruptError(WORDS_LOST)
        return WordStatistics(*row)

    def count(self, connection: Connection, *, organization_id: int) -> int:
        return connection.execute(_SQL["count"], {"organization_id": organization_id}).fetchone()[0]

    def postings(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Postings:
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        scope = {"organization_id": organization_id}
        words = [term for term in terms if not is_prefix(term)]
        rows = connection.execute(_SQL["postings"], {**scope, "terms": words})
        held = {term: _numbers(keys, counts) for term, keys, counts in rows}
        for prefix in set(terms).difference(words):
            row = connection.execute(_SQL["postings_of_prefix"], {**scope, "first": prefix})
            held[prefix] = _numbers(*row.fetchone())
        nothing = _numbers(None, None)
        entries = [held.get(term, nothing) for term in terms]
        return Postings(
            terms=np.repeat(np.arange(len(terms)), [len(keys) for keys, _ in entries]),
            keys=np.concatenate([nothing[0], *(keys for keys, _ in entries)]),
            counts=np.concatenate([nothing[1], *(counts for _, counts in entries)]),
        )

    def expect(
        self,
        connection: Connection,
        terms: Sequence[str],
        *,
        revision: int,
        missing: Sequence[str],
        organization_id: int,
    ) -> None:
        if not isinstance(connection, RemoteConnection):
            return
        scope = {"organization_id": organization_id}
        connection.ask_ahead(_SQL["statistics"], scope)
        known = scope | {"revision": revision}
        both = [[term for term in each if not is_prefix(term)] for each in (terms, missing)]
        connection.ask_ahead(
            _SQL["postings_if_changed"],
            {**known, "terms": both[0], "missing": both[1]},
            instead_of=[(_SQL["postings"], {**scope, "terms": words}) for words in both],
        )
        for prefix in set(filter(is_prefix, terms)):
            asked = {**scope, "first": prefix}
            connection.ask_ahead(
                _SQL["postings_of_prefix_if_changed"],
                {**known, "first": prefix, "is_missing": prefix in missing},
                instead_of=[(_SQL["postings_of_prefix"], asked)],
            )

    def lengths(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterator[WordLengths]:
        values = {"organization_id": organization_id, "keys": [*map(int, keys)]}
        return (WordLengths(*row) for row in connection.execute(_SQL["lengths"], values))

    def check(self, connection: Connection, *, organization_id: int) -> _Check:
        return _Check(connection, organization_id=organization_id)


class _Check:
    """The `WordCheck` of a PostgreSQL database."""

    def __init__(self, connection: Connection, *, organization_id: int) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._rows = self._words = self._sum = self._missing = self._wrong = 0

    def expect(self, rows: Iterable[MessageWords]) -> None:
        expected = {row.key: _words_in(row) for row in rows}
        lengths = {key: (len(telling), len(stops)) for key, (telling, stops) in expected.items()}
        self._compare_lengths(lengths)
        self._rows += len(lengths)
        self._words += sum(map(sum, lengths.values()))
        for key, (telling, stops) in expected.items():
            held = Counter(telling + stops)
            self._sum += sum(hash((term, key, count)) for term, count in held.items())

    def faults(self) -> Iterator[str]:
        (present,) = self._ask("count").fetchone()
        return index.describe_faults(
            missing=self._missing,
            surplus=present - self._rows + self._missing,
            wrong=self._wrong,
            is_miscounted=self._ask("statistics").fetchone() != (self._rows, self._words),
            checksums=(self._sum, self._stored_sum()),
        )

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


def _words_in(row: MessageWords) -> tuple[list[str], list[str]]:
    """Return the words of a message: those that tell something, and stop words."""
    telling, stops = (
        [word for word in part.split(" ") if word] for part in (row.telling, row.stops)
    )
    return telling, stops


def _columns(rows: Iterable[MessageWords]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the lengths and the postings of messages, as lists by the names in statements."""
    lengths: dict[str, Any] = {"keys": [], "telling": [], "stops": []}
    postings: dict[str, Any] = {"keys": [], "occurrences": [], "terms": []}
    for row in rows:
        telling, stops = _words_in(row)
        for name, value in zip(lengths, (row.key, len(telling), len(stops)), strict=True):
            lengths[name].append(value)
        held = Counter(telling + stops)
        postings["keys"] += [row.key] * len(held)
        postings["occurrences"] += held.values()
        postings["terms"] += held
    return lengths, postings


def _numbers(keys: bytes | None, counts: bytes | None) -> tuple[Numbers, Numbers]:
    """Decode keys and counts, which come as bytes: a row for each would take many times as long."""
    import numpy as np  # noqa: PLC0415 as above

    return (
        np.frombuffer(keys or b"", dtype=">i8").astype(np.int64),
        np.frombuffer(counts or b"", dtype=">i4").astype(np.int64),
    )

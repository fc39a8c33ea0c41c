"""The words of an organisation file's messages: an FTS5 table of analysed words.

The table is contentless and holds what `engram.text.analyse` made of messages, so the tokenizer has only
to keep our tokens as they are (every character above ASCII is part of a token there, and so are the three
that the analyser uses). A contentless row is removed by the very words it was indexed with; any others
would leave the index damaged. Its rows go by the keys of `engram.storage.sqlite.word_keys`.

A file holds one organisation, whose number is therefore of no use here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engram.storage.postings.index import MessageWords, Postings, WordLengths, WordStatistics
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.varints import read_varints
from engram.storage.sqlite.word_keys import word_row

_SQL = load_queries("sqlite/words.sql")


_MASK = (1 << 64) - 1
_COLUMNS = ("words", "stops")


class Fts5Check:
    """The `WordCheck` of an organisation file."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows = self._sum = self._missing = self._wrong = 0
        self._words = [0] * len(_COLUMNS)

    def expect(self, rows: Iterable[MessageWords]) -> None:
        for key, *parts in rows:
            row = word_row(key)
            sizes = [
                self._add(row, column, text) for column, text in zip(_COLUMNS, parts, strict=True)
            ]
            self._compare_sizes(row, sizes)
            self._rows += 1
            self._words = [sum(pair) for pair in zip(self._words, sizes, strict=True)]

    def faults(self) -> Iterator[str]:
        (present,) = self._ask("count_rows")
        for count, what in (
            (self._missing, "are missing from"),
            (present - self._rows + self._missing, "should not be in"),
            (self._wrong, "have another number of words in"),
        ):
            if count:
                yield f"{count} messages {what} the word index"
        block = self._ask("totals")
        totals = read_varints(block[0]) if block else []
        if totals != [self._rows, *self._words] and (totals or self._rows):
            yield "the word index miscounts its rows or words"
        if self._sum & _MASK != self._stored_sum() & _MASK:
            yield "the word index holds other words than the messages"

    def _add(self, row: int, column: str, text: str) -> int:
        words = [word for word in text.split(" ") if word]
        self._sum += sum(hash((word, row, column, place)) for place, word in enumerate(words))
        return len(words)

    def _compare_sizes(self, row: int, sizes: list[int]) -> None:
        found = self._ask("size_of_row", row)
        if found is None:
            self._missing += 1
        else:
            self._wrong += read_varints(found[0]) != sizes

    def _stored_sum(self) -> int:
        return sum(map(hash, self._connection.execute(_SQL["all_places"])))

    def _ask(self, name: str, *values: int) -> Any:
        return self._connection.execute(_SQL[name], values).fetchone()


class Fts5WordIndex:
    """The `WordIndex` of an organisation file."""

    def add(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        del organization_id
        connection.executemany(_statement("index_message", is_next=is_next), rows)

    def remove(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        del organization_id
        connection.executemany(_statement("unindex_message", is_next=is_next), rows)

    def begin_next(self, connection: Connection, *, organization_id: int) -> None:
        self.drop_next(connection, organization_id=organization_id)
        connection.execute(_SQL["create_next"])
        connection.execute(_SQL["merge_next"])

    def take_over(self, connection: Connection, *, organization_id: int) -> None:
        del organization_id
        connection.execute(_SQL["drop_present"])
        connection.execute(_SQL["rename_next"])

    def drop_next(self, connection: Connection, *, organization_id: int) -> None:
        del organization_id
        connection.execute(_SQL["drop_next"])

    def statistics(self, connection: Connection, *, organization_id: int) -> WordStatistics:
        del organization_id
        row = connection.execute(_SQL["totals"]).fetchone()
        texts, *words = read_varints(row[0]) if row and row[0] else (0,)
        return WordStatistics(texts, sum(words))

    def count(self, connection: Connection, *, organization_id: int) -> int:
        del organization_id
        return connection.execute(_SQL["count_rows"]).fetchone()[0]

    def postings(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Postings:
        from engram.storage.sqlite.word_postings import (  # noqa: PLC0415 a store that is not searched does without numpy
            read_postings,
        )

        del organization_id
        return read_postings(connection, terms)

    def lengths(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterator[WordLengths]:
        del organization_id
        for key, size in connection.execute(_SQL["lengths"], {"keys": json.dumps(keys)}):
            telling, stops, *_ = size if len(size) == 2 else (*read_varints(size), 0, 0)
            yield WordLengths(key, telling, stops)

    def check(self, connection: Connection, *, organization_id: int) -> Fts5Check:
        del organization_id
        return Fts5Check(connection)


def _statement(name: str, *, is_next: bool) -> str:
    return _SQL[name].replace("message_words", "message_words_next") if is_next else _SQL[name]

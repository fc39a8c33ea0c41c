"""The word index of an organisation's file: an FTS5 table of analysed words.

The table is contentless and holds the output of `engram.text.analyse`, so the tokenizer only has to
keep our tokens as they are (every character above ASCII is part of a token, and so are the three that
the analyser uses). A contentless row must be removed with the words it was indexed with; any others
would damage the index. Row ids are `word_row` of message keys.

A file has one organisation, whose number is therefore ignored here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from engram import limits
from engram.errors import StoreCorruptError
from engram.model.row_keys import SEQUENCE_BITS, conversation_of, position_of
from engram.storage.postings.index import (
    MessageWords,
    PostingList,
    Postings,
    WordLengths,
    WordStatistics,
    describe_faults,
)
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.text.analyse import is_prefix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engram.storage.sqlite.packed_words import LogCache
    from engram.storage.sqlite.word_log import WordLog


_SQL = load_queries("sqlite/words.sql")
_PACKED = load_queries("sqlite/packed_words.sql")


_COLUMNS = ("words", "stops")
_GROWTH = 2
"""Frequent words are looked for again when there are so many times as many messages."""
_LISTS_COMPARED = 64
"""Packed lists that a check holds in memory at once."""


class _PackedState(NamedTuple):
    """The columns of `get_state`."""

    generation: int
    logged: int
    folded: int
    counted: int


Numbers = TypeVar("Numbers", int, "NDArray[np.int64]")

BLOCK_BITS = 12
BLOCK_MASK = (1 << BLOCK_BITS) - 1
_CONVERSATION_BITS = 34
_CONVERSATION_MASK = (1 << _CONVERSATION_BITS) - 1


def word_row(key: int) -> int:
    """Return the row id in a word index of the message with that key.

    FTS5 stores the differences between the row ids of a word, so the first 4,096 positions of all
    conversations are adjacent: measured, the index is 14 to 19 % smaller for conversations of 100
    and of 20 messages, and the same for one of 10,000. `words.sql` has the same in SQL.
    """
    block = position_of(key) >> BLOCK_BITS
    row = block << _CONVERSATION_BITS | conversation_of(key)
    return row << BLOCK_BITS | key & BLOCK_MASK


def key_of_word_row(row: Numbers) -> Numbers:
    """Return the key of the message in that row of a word index, or the keys of an array of rows."""
    conversation = row >> BLOCK_BITS & _CONVERSATION_MASK
    block = row >> (BLOCK_BITS + _CONVERSATION_BITS)
    return conversation << SEQUENCE_BITS | block << BLOCK_BITS | row & BLOCK_MASK


def read_varints(block: bytes) -> list[int]:
    """Return the integers of a block, each of one to nine bytes, the high bits first."""
    numbers: list[int] = []
    value = length = 0
    for byte in block:
        length += 1
        if length == 9:
            value = value << 8 | byte
        else:
            value = value << 7 | byte & 0x7F
            if byte & 0x80:
                continue
        numbers.append(value)
        value = length = 0
    return numbers


class Fts5Check:
    """The `WordCheck` of an FTS5 table: compares counts, sizes and a checksum of all places."""

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
        block = self._ask("totals")
        totals = read_varints(block[0]) if block else []
        is_empty = not totals and not self._rows
        yield from describe_faults(
            missing=self._missing,
            surplus=present - self._rows + self._missing,
            wrong=self._wrong,
            is_miscounted=totals != [self._rows, *self._words] and not is_empty,
            checksums=(self._sum, self._stored_sum()),
        )
        yield from _list_faults(self._connection)

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
    """The `WordIndex` of an FTS5 table, with packed posting lists of its frequent words."""

    def __init__(self) -> None:
        self._log: WordLog | None = None
        self._log_cache: LogCache | None = None

    def add(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        del organization_id
        added = [*rows]
        connection.executemany(_statement("index_message", is_next=is_next), added)
        if not is_next and (state := _read_state(connection)) is not None:
            generation, logged, *_ = state
            log = self._word_log()
            log.append(connection, added, generation=generation, logged=logged)

    def _word_log(self) -> WordLog:
        if self._log is None:
            from engram.storage.sqlite.word_log import WordLog  # noqa: PLC0415 of big files

            self._log = WordLog()
        return self._log

    def remove(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        del organization_id
        removed = [*rows]
        connection.executemany(_statement("unindex_message", is_next=is_next), removed)
        if removed and not is_next and _read_state(connection) is not None:
            from engram.storage.sqlite.packed_words import remove_messages  # noqa: PLC0415 of big files

            remove_messages(connection, removed)

    def merge_due(self, size: int) -> int:
        return min(
            max(size // limits.PACKED_LOG_SHARE, limits.PACKED_LOG_MIN), limits.PACKED_LOG_MAX
        )

    def merge(self, connection: Connection, *, organization_id: int) -> bool:
        """Merge some of the log into the packed lists, or begin to keep such lists."""
        from engram.storage.sqlite.packed_words import fold  # noqa: PLC0415 of big files

        del organization_id
        if (state := _read_state(connection)) is not None:
            return fold(connection, after=state.folded)
        connection.execute(_PACKED["begin"])
        return False

    def unpacked(self, connection: Connection, *, organization_id: int) -> Sequence[str] | None:
        state = _read_state(connection)
        texts = self.statistics(connection, organization_id=organization_id).texts
        if state is None or texts < _GROWTH * state.counted:
            return None
        found = connection.execute(_PACKED["unpacked"], {"postings_min": _postings_min(texts)})
        # A beginning of words is looked up in FTS5, even if it is a word too.
        return [term for (term,) in found if not is_prefix(term)]

    def pack(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Sequence[str]:
        """Pack posting lists, as many as a short transaction can."""
        if _read_state(connection) is None:
            return ()  # all lists were dropped meanwhile
        texts = self.statistics(connection, organization_id=organization_id).texts
        left, postings = iter(terms), 0
        for term in left:
            postings += _pack(connection, term, postings_min=_postings_min(texts))
            if postings >= limits.PACKED_STEP_POSTINGS:
                break
        connection.execute(_PACKED["renew_generation"])
        if not (rest := [*left]):
            connection.execute(_PACKED["note_counted"], (texts,))
        return rest

    def begin_next(self, connection: Connection, *, organization_id: int) -> None:
        self.drop_next(connection, organization_id=organization_id)
        connection.execute(_SQL["create_next"])
        connection.execute(_SQL["merge_next"])

    def take_over(self, connection: Connection, *, organization_id: int) -> None:
        del organization_id
        from engram.storage.sqlite.packed_words import drop_lists  # noqa: PLC0415 of big files

        connection.execute(_SQL["drop_present"])
        connection.execute(_SQL["rename_next"])
        drop_lists(connection)

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
        del organization_id
        blocks = _packed_blocks(connection, [term for term in terms if not is_prefix(term)])
        if not blocks:
            return _read_postings(connection, terms)
        from engram.storage.sqlite.packed_words import LogCache, read_lists  # noqa: PLC0415 of big files

        self._log_cache = cache = self._log_cache or LogCache()
        packed = read_lists(connection, blocks, cache=cache)
        others = [term for term in terms if term not in packed]
        lists = packed | _read_postings(connection, others).by_term(others)
        return Postings.joined([lists[term] for term in terms])

    def expect(
        self,
        connection: Connection,
        terms: Sequence[str],
        *,
        revision: int,
        missing: Sequence[str],
        organization_id: int,
    ) -> None:
        """Do nothing: a file answers at once."""

    def grown(self, since: int, revision: int) -> None:
        """Return None: writers note their appends themselves."""

    def drop_cached(self) -> None:
        """Do nothing: no words of messages are cached."""

    def lengths(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterator[WordLengths]:
        del organization_id
        for key, size in connection.execute(_SQL["lengths"], {"keys": json.dumps(keys)}):
            telling, stops, *_ = size if len(size) == 2 else (*read_varints(size), 0, 0)
            yield WordLengths(key, telling, stops)

    def ask_lengths(
        self, connection: Connection, keys: NDArray[np.int64], *, organization_id: int
    ) -> Callable[[], NDArray[np.int64]]:
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        from engram.vectors.arrays import are_among, distinct  # noqa: PLC0415 as above

        # Neighbouring windows ask for the same messages.
        keys = distinct(keys)
        values = {"keys": json.dumps(keys.tolist())}
        short, sizes = connection.execute(_SQL["short_lengths"], values).fetchone()
        short_keys = np.fromstring(short or "", dtype=np.int64, sep=",")
        left = keys[~are_among(keys, np.sort(short_keys))].tolist()
        others = [*self.lengths(connection, left, organization_id=organization_id)] if left else []
        columns = np.frombuffer(bytes.fromhex(sizes or ""), dtype=np.uint8).astype(np.int64)
        rows = np.concatenate(
            (
                np.column_stack((short_keys, columns.reshape(-1, 2))),
                np.array(others, dtype=np.int64).reshape(-1, 3),
            )
        )
        rows[:, 2] += rows[:, 1]
        return lambda: rows

    def check(self, connection: Connection, *, organization_id: int) -> Fts5Check:
        del organization_id
        return Fts5Check(connection)


def _statement(name: str, *, is_next: bool) -> str:
    return _SQL[name].replace("message_words", "message_words_next") if is_next else _SQL[name]


def _read_state(connection: Connection) -> _PackedState | None:
    row = connection.execute(_PACKED["get_state"]).fetchone()
    return None if row is None else _PackedState._make(row)


def _packed_blocks(connection: Connection, terms: Sequence[str]) -> list[tuple[str, int, bytes]]:
    """Return term, number and block, for those of the terms that have packed lists."""
    return connection.execute(_PACKED["blocks_of_terms"], {"terms": json.dumps(terms)}).fetchall()


def _postings_min(texts: int) -> int:
    """Return from how many postings on a word has a packed list, in an index of so many messages."""
    return max(limits.PACKED_POSTINGS_MIN, texts // limits.PACKED_POSTINGS_SHARE)


def _pack(connection: Connection, term: str, *, postings_min: int) -> int:
    """Pack the posting list of a word, if it still is frequent and has none; return how many postings were read."""
    from engram.storage.sqlite.packed_words import add_list  # noqa: PLC0415 of big files

    if connection.execute(_PACKED["is_packed"], (term,)).fetchone() is not None:
        return 0
    found = _read_postings(connection, [term])
    if len(found.keys) >= postings_min:
        add_list(connection, term, PostingList(found.keys, found.counts))
    return len(found.keys)


def _list_faults(connection: Connection) -> Iterator[str]:
    """Describe how packed lists differ from what FTS5 says."""
    from engram.storage.sqlite.packed_words import LogCache, read_lists  # noqa: PLC0415 of big files

    (strays,) = connection.execute(_PACKED["stray_blocks"]).fetchone()
    if strays:
        yield f"{strays} blocks of packed posting lists belong to no word"
    terms = [term for term, _ in connection.execute(_PACKED["numbers"])]
    wrong, cache = 0, LogCache()
    try:
        for start in range(0, len(terms), _LISTS_COMPARED):
            blocks = _packed_blocks(connection, terms[start : start + _LISTS_COMPARED])
            packed = read_lists(connection, blocks, cache=cache)
            expected = _read_postings(connection, [*packed]).by_term([*packed])
            wrong += sum(packed[term].sorted() != expected[term].sorted() for term in packed)
    except StoreCorruptError:
        yield "packed posting lists are damaged"
    if wrong:
        yield f"{wrong} packed posting lists differ from the word index"


def _read_postings(connection: Connection, terms: Sequence[str]) -> Postings:
    """Return what FTS5 says of terms."""
    import numpy as np  # noqa: PLC0415 as above

    from engram.vectors.arrays import run_lengths  # noqa: PLC0415 as above

    # One statement per term: a single one for all took as long, and has to tell terms apart.
    found = [_rows_of(connection, term) for term in terms]
    rows = np.concatenate([np.empty(0, dtype=np.int64), *found])
    sizes = np.array([len(each) for each in found], dtype=np.int64)
    # A posting begins where the row changes, or the term does.
    is_first = np.ones(len(rows), dtype=np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    ends = sizes.cumsum()
    is_first[ends[ends < len(rows)]] = True
    starts = is_first.nonzero()[0]
    return Postings(
        terms=np.repeat(np.arange(len(found)), sizes).take(starts),
        keys=key_of_word_row(rows.take(starts)),
        counts=run_lengths(starts, len(rows)),
    )


def _rows_of(connection: Connection, term: str) -> NDArray[np.int64]:
    """Return the row of every occurrence of a term; those of one row are adjacent."""
    import numpy as np  # noqa: PLC0415 as above

    is_of_many = is_prefix(term)
    statement = _SQL["places_of_prefix" if is_of_many else "places_of_word"]
    (text,) = connection.execute(statement, {"term": term}).fetchone()
    rows = np.fromstring(text or "", dtype=np.int64, sep=",")
    return np.sort(rows) if is_of_many else rows

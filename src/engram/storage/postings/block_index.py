"""The word index in ordinary rows: posting lists in blocks, and the lengths of messages.

An append writes one row, the words of its messages: the tail of the index. `merge` moves the tail into
pages, each of which holds the posting lists of neighbouring terms, from its first term up to that of the
next page. What a term has beyond a bound is moved from its page into blocks of its own, which only
change when a message is removed. So an append writes little, a search reads one page for each of its
words, its blocks and the tail, and no row is ever large.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.errors import StoreCorruptError
from engram.storage.postings import index
from engram.storage.postings.block_cache import Answer, BlockCache, nothing_known
from engram.storage.postings.blocks import (
    EMPTY,
    Block,
    PackedBlock,
    Tail,
    TailSearch,
    block_of,
    cut_full,
    extended,
    pack,
    split,
    unpack,
    words_in,
)
from engram.storage.postings.index import (
    WORDS_LOST,
    Growth,
    MessageWords,
    PostingList,
    Postings,
    WordLengths,
    WordStatistics,
    tail_words_due,
)
from engram.storage.postings.lengths import (
    LENGTH,
    PAGE_BITS,
    length_rows,
    length_rows_together,
    packed_numbers,
    with_ends,
)
from engram.storage.rows.database import Connection, RemoteConnection
from engram.storage.rows.queries import load_queries
from engram.text.analyse import is_prefix
from engram.vectors.arrays import distinct, run_starts

Keys = NDArray[np.int64]

_SQL = load_queries("postings/blocks.sql")

_PAGE_POSTINGS_MAX = 512
_PAGE_TERMS_MAX = 256
"""Larger pages are split: their rows are about 700 bytes, and updated without a new index entry."""

_BLOCK_POSTINGS = 512
"""Postings of one term that are moved to a block of their own."""

_ROWS_READ = 500


class BlockWordIndex:
    """The `WordIndex` of a database that holds blocks in rows, with the cache of one organisation."""

    def __init__(self) -> None:
        self._cache = BlockCache()

    def add(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        store = _Rows(connection, organization_id, step=int(is_next))
        words = {row.key: words_in(row) for row in rows}
        tail = Tail.of({key: telling + stops for key, (telling, stops) in words.items()})
        more = sum(len(telling) + len(stops) for telling, stops in words.values())
        rows_taken = int(bool(tail.words))
        store.run(
            "count_added",
            more_texts=len(words),
            more_words=more,
            more_tail=more,
            more_rows=rows_taken,
        )
        store.write("add_lengths", _packed_lengths(words))
        if rows_taken:
            store.run("add_tail", **tail._asdict())
        if is_next:
            in_all, in_tail = store.run("next_words").fetchone()
            if in_tail >= tail_words_due(in_all):
                store.merge()

    def remove(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        words = {row.key: words_in(row) for row in rows}
        if not words:
            return
        store = _Rows(connection, organization_id, step=int(is_next))
        removed = store.remove_lengths([*words])
        store.run(
            "count_added",
            more_texts=-len(removed),
            more_words=-sum(each.telling + each.stops for each in removed),
            more_tail=0,
            more_rows=0,
        )
        terms = {term for telling, stops in words.values() for term in (*telling, *stops)}
        store.remove_postings(np.array([*words], dtype=np.int64), sorted(terms))

    def merge_due(self, size: int) -> int:
        return tail_words_due(size)

    def merge(self, connection: Connection, *, organization_id: int) -> bool:
        _Rows(connection, organization_id).merge()
        return False

    def unpacked(self, connection: Connection, *, organization_id: int) -> None:
        """Return None: a merge packs all words."""

    def pack(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Sequence[str]:
        """Do nothing: a merge packs all words."""
        del connection, terms, organization_id
        return ()

    def begin_next(self, connection: Connection, *, organization_id: int) -> None:
        self.drop_next(connection, organization_id=organization_id)

    def take_over(self, connection: Connection, *, organization_id: int) -> None:
        connection.execute(_SQL["take_over"], {"organization_id": organization_id})
        self.drop_next(connection, organization_id=organization_id)

    def drop_next(self, connection: Connection, *, organization_id: int) -> None:
        store = _Rows(connection, organization_id)
        for name in (
            "restore_row",
            "forget_next",
            "drop_lengths",
            "drop_pages",
            "drop_blocks",
            "drop_tail",
        ):
            store.run(name)

    def statistics(self, connection: Connection, *, organization_id: int) -> WordStatistics:
        values = {"organization_id": organization_id}
        row = connection.execute(_SQL["statistics"], values).fetchone()
        if row is None:
            raise StoreCorruptError(WORDS_LOST)
        return WordStatistics(*row)

    def count(self, connection: Connection, *, organization_id: int) -> int:
        values = {"organization_id": organization_id}
        return connection.execute(_SQL["count"], values).fetchone()[0] // LENGTH.itemsize

    def postings(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Postings:
        scope = {"organization_id": organization_id}
        words = [term for term in terms if not is_prefix(term)]
        held = self._lists(connection, words, scope) if words else {}
        for prefix in set(terms).difference(words):
            rows = connection.execute(_SQL["postings_of_prefix"], {**scope, **_range_of(prefix)})
            held[prefix] = PostingList(*_found_by_prefix(rows, prefix))
        return Postings.joined([held[term] for term in terms])

    def _lists(
        self, connection: Connection, words: Sequence[str], scope: Mapping[str, Any]
    ) -> dict[str, PostingList]:
        """Return the posting lists of words; who calls must see nothing that was not committed."""
        while True:
            row = connection.execute(_SQL["postings"], _asked(words, scope)).fetchone()
            if row is None:
                raise StoreCorruptError(WORDS_LOST)
            # What `expect` has asked for may lack what others have dropped from the cache; the next answer is whole.
            found = self._cache.take(Answer(*row), words)
            if found is not None:
                return found

    def grown(self, since: int, revision: int) -> Growth | None:
        return self._cache.grown(since, revision)

    def drop_cached(self) -> None:
        self._cache.clear()

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
        both = [[term for term in each if not is_prefix(term)] for each in (terms, missing)]
        if words := both[0]:
            connection.ask_ahead(
                _SQL["postings"],
                {**scope, "terms": words, **self._cache.known(words)},
                instead_of=[(_SQL["postings"], _asked(each, scope)) for each in both if each],
            )
        known = scope | {"revision": revision}
        for prefix in set(filter(is_prefix, terms)):
            bounds = _range_of(prefix)
            connection.ask_ahead(
                _SQL["postings_of_prefix_if_changed"],
                {**known, **bounds, "is_missing": prefix in missing},
                instead_of=[(_SQL["postings_of_prefix"], {**scope, **bounds})],
            )

    def lengths(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterator[WordLengths]:
        pages = sorted({key >> PAGE_BITS for key in keys})
        values = {"organization_id": organization_id, "pages": json.dumps(pages)}
        found = connection.execute(_SQL["lengths"], values)
        return _unpacked_lengths(found, keys)

    def ask_lengths(
        self, connection: Connection, keys: Keys, *, organization_id: int
    ) -> Callable[[], Keys]:
        pages = distinct(keys >> PAGE_BITS).tolist()
        values = {"organization_id": organization_id, "pages": json.dumps(pages)}
        if not isinstance(connection, RemoteConnection):
            stored = connection.execute(_SQL["lengths"], values)
            return lambda: length_rows(stored)
        together = connection.execute(_SQL["lengths_together"], values)
        return lambda: with_ends(length_rows_together(*together.fetchone()))

    def check(self, connection: Connection, *, organization_id: int) -> _Check:
        return _Check(connection, organization_id=organization_id)


class _Rows:
    """The rows of one index: the present one, or that being built."""

    def __init__(self, connection: Connection, organization_id: int, *, step: int = 0) -> None:
        self._connection = connection
        self._scope = {"organization_id": organization_id, "generation_step": step}

    def run(self, name: str, **values: Any) -> Any:
        return self._connection.execute(_SQL[name], {**self._scope, **values})

    def _list(self, terms: Sequence[str]) -> Any:
        return _list_for(self._connection, terms)

    def write(self, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write rows, given by columns: a server takes them all at once."""
        if isinstance(self._connection, RemoteConnection):
            self.run(name, **columns)
            return
        rows = zip(*columns.values(), strict=True)
        self._connection.executemany(
            _SQL[name], [{**self._scope, **dict(zip(columns, row, strict=True))} for row in rows]
        )

    def remove_lengths(self, keys: Sequence[int]) -> list[WordLengths]:
        """Remove the lengths of messages; return those that were there."""
        wanted = frozenset(keys)
        pages = sorted({key >> PAGE_BITS for key in keys})
        stored = self.run("length_rows", pages=json.dumps(pages)).fetchall()
        held = [*_unpacked_lengths(stored)]
        kept = {each.key: each[1:] for each in held if each.key not in wanted}
        left = packed_numbers(kept)
        if gone := sorted({page for page, _ in stored}.difference(left["page"])):
            self.run("delete_lengths", pages=json.dumps(gone))
        if kept:
            self.write("put_lengths", left)
        return [each for each in held if each.key in wanted]

    def remove_postings(self, keys: Keys, terms: Sequence[str]) -> None:
        """Remove messages from the tail, and from the pages and blocks of terms."""
        asked = self._list(terms)
        bounds = {"first_key": int(keys.min()), "last_key": int(keys.max())}
        tail = self.run("tail").fetchall()
        pages = self.run("pages_of_terms", terms=asked).fetchall()
        blocks = self.run("blocks_of_terms", terms=asked, **bounds).fetchall()
        self._remove_from_tail(tail, keys)
        self._remove_from_pages(pages, keys)
        self._remove_from_blocks(blocks, keys)

    def merge(self) -> None:
        """Move the tail into the pages."""
        rows = [Tail(*row) for _, *row in self.run("tail").fetchall()]
        new = block_of(Tail.joined(rows))
        if new.terms:
            self._put_into_pages(new)
            self.run("empty_tail", nothing=b"")
        self.run("forget_tail")

    def _put_into_pages(self, new: Block) -> None:
        stored: dict[str, bytes] = dict(
            self.run("pages_of_terms", terms=self._list(new.terms)).fetchall()
        )
        # Terms before all pages begin a page that has no lower bound.
        firsts = sorted({"", *stored})
        owners = [bisect_right(firsts, term) - 1 for term in new.terms]
        starts: list[int] = run_starts(np.array(owners, dtype=np.int64)).tolist()
        pages, blocks, emptied = list[tuple[str, Block]](), list[Block](), list[str]()
        for start, added in zip(starts, new.cut_before(starts), strict=True):
            first = firsts[owners[start]]
            old = unpack(stored[first]) if first in stored else EMPTY
            full, rest = cut_full(extended(old, added), size=_BLOCK_POSTINGS)
            blocks += full
            parts = split(rest, postings_max=_PAGE_POSTINGS_MAX, terms_max=_PAGE_TERMS_MAX)
            pages += _numbered(parts, first)
            emptied += [] if rest.terms else [first]
        self._delete_pages(emptied)
        self._put_pages(pages)
        self._put_blocks(blocks)

    def _delete_pages(self, firsts: Sequence[str]) -> None:
        """Remove pages: what they covered belongs to those before them."""
        if firsts:
            self.run("delete_pages", terms=self._list(firsts))

    def _put_pages(self, pages: Iterable[tuple[str, Block]]) -> None:
        rows = [(first, pack(block)) for first, block in pages]
        if rows:
            self.write(
                "put_pages",
                {"term": [each for each, _ in rows], "packed": [each for _, each in rows]},
            )

    def _put_blocks(self, blocks: Sequence[Block]) -> None:
        if not blocks:
            return
        columns = {
            "term": [block.terms[0] for block in blocks],
            "first_key": [int(block.keys.min()) for block in blocks],
            "last_key": [int(block.keys.max()) for block in blocks],
            "packed": [pack(block) for block in blocks],
        }
        self.write("put_blocks", columns)

    def _remove_from_tail(
        self, rows: Iterable[tuple[int, bytes, bytes, bytes]], keys: Keys
    ) -> None:
        gone: list[int] = []
        for number, *row in rows:
            old = Tail(*row)
            new = old.without(keys)
            if not new.words:
                gone.append(number)
            elif new is not old:
                self.run("put_tail", number=number, **new._asdict())
        if gone:
            self.run("delete_tail", numbers=json.dumps(gone))

    def _remove_from_pages(self, rows: Iterable[tuple[str, bytes]], keys: Keys) -> None:
        gone, pages = list[str](), list[tuple[str, Block]]()
        for first, packed in rows:
            old = unpack(packed)
            new = old.without(keys)
            # A bound that no message holds any more would tell what was removed.
            bound = new.terms[0] if first and new.terms else ""
            if not new.terms or bound != first:
                gone.append(first)
            if new.terms and (new is not old or bound != first):
                pages.append((bound, new))
        self._delete_pages(gone)
        self._put_pages(pages)

    def _remove_from_blocks(self, rows: Sequence[tuple[str, int, bytes]], keys: Keys) -> None:
        blocks: list[Block] = []
        for term, first_key, packed in rows:
            old = unpack(packed)
            new = old.without(keys)
            if new is not old:
                self.run("delete_block", term=term, first_key=first_key)
                blocks += [new] if new.terms else []
        self._put_blocks(blocks)


class _Check:
    """The `WordCheck` of blocks in rows."""

    def __init__(self, connection: Connection, *, organization_id: int) -> None:
        self._store = _Rows(connection, organization_id)
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
        present = self._store.run("count").fetchone()[0] // LENGTH.itemsize
        said = self._store.run("statistics").fetchone()
        return index.describe_faults(
            missing=self._missing,
            surplus=present - self._rows + self._missing,
            wrong=self._wrong,
            is_miscounted=said != (self._rows, self._words),
            checksums=(self._sum, self._stored_sum()),
        )

    def _compare_lengths(self, expected: dict[int, tuple[int, int]]) -> None:
        pages = sorted({key >> PAGE_BITS for key in expected})
        stored = self._store.run("lengths", pages=json.dumps(pages)).fetchall()
        whole = [row for row in stored if len(row[1]) % LENGTH.itemsize == 0]
        found = {each.key: each[1:] for each in _unpacked_lengths(whole, [*expected])}
        self._missing += len(expected) - len(found)
        self._wrong += sum(expected[key] != length for key, length in found.items())

    def _stored_sum(self) -> int:
        """Return the checksum of all postings; a block that is damaged changes it."""
        total = 0
        for block in self._blocks():
            terms = np.array(block.terms, dtype=object).repeat(block.sizes).tolist()
            total += sum(
                map(hash, zip(terms, block.keys.tolist(), block.counts.tolist(), strict=True))
            )
        return total

    def _blocks(self) -> Iterator[Block]:
        run = self._store.run
        for packed in self._packed():
            try:
                yield unpack(packed)
            except StoreCorruptError:
                yield _DAMAGED
        for _, *row in run("tail").fetchall():
            try:
                yield block_of(Tail(*row))
            except StoreCorruptError:
                yield _DAMAGED

    def _packed(self) -> Iterator[bytes]:
        run = self._store.run
        yield from (packed for _, packed in run("first_page").fetchall())
        term, key = "", -1
        while pages := run("pages_after", term=term, limit=_ROWS_READ).fetchall():
            yield from (packed for _, packed in pages)
            term = pages[-1][0]
        term = ""
        while blocks := run("blocks_after", term=term, key=key, limit=_ROWS_READ).fetchall():
            yield from (packed for _, _, packed in blocks)
            term, key, _ = blocks[-1]


_ONE = np.ones(1, dtype=np.int64)
_DAMAGED = Block([""], _ONE, _ONE, _ONE)
"""Counts as a posting that no message has."""


def _list_for(connection: Connection, terms: Sequence[str]) -> Any:
    """Return terms as the database takes a list of them."""
    return list(terms) if isinstance(connection, RemoteConnection) else json.dumps(terms)


def _asked(words: Sequence[str], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the statement `postings` for those who have nothing cached."""
    return {**scope, "terms": words, **nothing_known(words)}


def _numbered(parts: Iterable[Block], first: str) -> Iterator[tuple[str, Block]]:
    """Yield each part with its lower bound: the first has that of the page it comes from."""
    for place, part in enumerate(parts):
        yield (part.terms[0] if place else first), part


def _range_of(prefix: str) -> dict[str, str]:
    return {"first": prefix, "last": prefix + chr(0x10FFFF)}


_Row = tuple[bytes | None, bytes | None, bytes | None]
"""Columns of the tail; or, after two that are None, a block."""


def _found_by_prefix(rows: Iterable[_Row], prefix: str) -> tuple[Keys, Keys]:
    """Return the keys of messages with a word that begins so, and how many each has."""
    blocks, tail = _sorted_out(rows)
    found = [tail.look_up_prefix(prefix), *(block.look_up_prefix(prefix) for block in blocks)]
    keys, counts = _concatenated(found)
    if not len(keys):
        return keys, counts
    order = keys.argsort(kind="stable")
    ordered = keys.take(order)
    starts = run_starts(ordered)
    return ordered.take(starts), np.add.reduceat(counts.take(order), starts)


def _sorted_out(rows: Iterable[_Row]) -> tuple[list[PackedBlock], TailSearch]:
    blocks, tail = list[PackedBlock](), list[Tail]()
    for words, hashes, content in rows:
        if words is not None and hashes is not None and content is not None:
            tail.append(Tail(words, hashes, content))
        elif content is not None:
            blocks.append(PackedBlock(content))
    return blocks, TailSearch.of(tail)


def _concatenated(parts: Sequence[tuple[Keys, Keys]]) -> tuple[Keys, Keys]:
    return (
        np.concatenate([keys for keys, _ in parts]),
        np.concatenate([counts for _, counts in parts]),
    )


def _packed_lengths(
    words: Mapping[int, tuple[Sequence[str], Sequence[str]]],
) -> dict[str, list[Any]]:
    return packed_numbers(
        {key: (len(telling), len(stops)) for key, (telling, stops) in words.items()}
    )


def _unpacked_lengths(
    rows: Iterable[tuple[int, bytes]], keys: Sequence[int] | None = None
) -> Iterator[WordLengths]:
    """Yield the lengths in rows, or those of some messages alone; rows are not waited for before that."""
    found = length_rows(rows)
    if keys is not None:
        found = found[np.isin(found[:, 0], np.array(keys, dtype=np.int64))]
    for key, telling, words in found.tolist():
        yield WordLengths(key, telling, words - telling)

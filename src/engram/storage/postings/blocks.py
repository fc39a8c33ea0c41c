"""Posting lists of several terms packed into one value of bytes, to be stored as a row.

A block stores columns: the terms in order, how many postings each has, and the keys and counts of all
postings. Numbers are stored by bytes of equal weight, the lowest bytes of all first, because most of the
higher ones are zero or equal and compress to nothing.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
import zstandard
from numpy.typing import NDArray

from engram.errors import StoreCorruptError
from engram.storage.postings.index import WORDS_LOST, MessageWords, pack_owner
from engram.storage.postings.owners import Owners, damage_reported

Keys = NDArray[np.int64]

_HEAD = struct.Struct("<II")
_SPACE = ord(" ")
_ZERO = np.zeros(1, dtype=np.int64)
_FEW = 8
"""With fewer terms than one in so many, a block is extended in place instead of sorted."""
_LEVEL = 3


class Block(NamedTuple):
    """Posting lists of terms, in ascending order of the terms."""

    terms: list[str]
    sizes: Keys
    """How many postings each term has."""
    keys: Keys
    """Of all postings, those of the first term first."""
    counts: Keys

    @property
    def ends(self) -> Keys:
        """Return where the postings of each term end."""
        return self.sizes.cumsum()

    def cut_before(self, places: Iterable[int]) -> Iterator[Block]:
        """Yield the parts between ascending places of terms, the first of which is 0."""
        ends = [0, *self.ends.tolist()]
        for first, last in pairwise((*places, len(self.terms))):
            postings = slice(ends[first], ends[last])
            yield Block(
                self.terms[first:last],
                self.sizes[first:last],
                self.keys[postings],
                self.counts[postings],
            )

    def without(self, keys: Keys) -> Block:
        """Return the block without the postings of some messages; the same if it has none of them."""
        stays = ~np.isin(self.keys, keys)
        return self if stays.all() else self.only(stays)

    def only(self, wanted: NDArray[np.bool_]) -> Block:
        """Return the postings selected by a mask."""
        owners = np.arange(len(self.terms)).repeat(self.sizes)[wanted]
        sizes = np.bincount(owners, minlength=len(self.terms))
        terms = [term for term, size in zip(self.terms, sizes.tolist(), strict=True) if size]
        return Block(terms, sizes[sizes > 0], self.keys[wanted], self.counts[wanted])


EMPTY = Block([], *(np.empty(0, dtype=np.int64) for _ in range(3)))


def words_in(row: MessageWords) -> tuple[list[str], list[str]]:
    """Return the words of a message: those that tell something, and stop words."""
    telling, stops = (
        [word for word in part.split(" ") if word] for part in (row.telling, row.stops)
    )
    return telling, stops


def _hash(word: bytes) -> int:
    return crc32(word) & 0xFFFF


class Tail(NamedTuple):
    """Messages as they were appended: their words one after the other, repeats included.

    The rows of many appends are looked through at once, without a step in Python for each word.
    """

    words: bytes
    """With a space after each."""
    hashes: bytes
    """Two bytes of each word, by which most of the others are skipped."""
    messages: bytes
    """Key and number of words of each."""

    @classmethod
    def of(cls, messages: Mapping[int, Sequence[str]]) -> Tail:
        """Return the row of messages, given as keys and words."""
        numbers = [(key, len(words)) for key, words in messages.items() if words]
        words = [word.encode() for words in messages.values() for word in words]
        return cls(
            b"".join(word + b" " for word in words),
            struct.pack(f"<{len(words)}H", *map(_hash, words)),
            b"".join(pack_owner(*each) for each in numbers),
        )

    @classmethod
    def joined(cls, rows: Sequence[Tail]) -> Tail:
        """Return the messages of several rows."""
        if len(rows) == 1:
            return rows[0]
        return cls(*(b"".join(column) for column in zip(*rows, strict=True))) if rows else _NO_TAIL

    def without(self, removed: Keys) -> Tail:
        """Return the row without some messages; the same if it has none of them."""
        owners = Owners.of(self.messages)
        stays = ~np.isin(owners.keys, removed)
        if stays.all():
            return self
        with damage_reported():
            words = self.words.decode().split(" ")
        ends = owners.ends.tolist()
        starts = [0, *ends]
        return Tail.of(
            {
                key: words[start:end]
                for key, start, end, is_left in zip(
                    owners.keys.tolist(), starts, ends, stays.tolist(), strict=False
                )
                if is_left
            }
        )


_NO_TAIL = Tail(b"", b"", b"")


class TailSearch(NamedTuple):
    """Finds words in the tail."""

    words: bytes
    """With a space before each, and after the last."""
    spaces: Keys
    """Where these are."""
    hashes: NDArray[np.uint16]
    owners: Owners

    @classmethod
    def of(cls, rows: Sequence[Tail]) -> TailSearch:
        """Return what finds words in rows.

        Raises:
            StoreCorruptError: they are damaged.
        """
        tail = Tail.joined(rows)
        words = b" " + tail.words
        spaces = (np.frombuffer(words, dtype=np.uint8) == _SPACE).nonzero()[0]
        owners = Owners.of(tail.messages)
        if len(spaces) - 1 != owners.entries or len(tail.hashes) != 2 * owners.entries:
            raise StoreCorruptError(WORDS_LOST)
        hashes = np.frombuffer(tail.hashes, dtype="<u2")
        return cls(words, spaces, hashes, owners)

    @property
    def keys(self) -> Keys:
        """Return the keys of the messages, in their order."""
        return self.owners.keys

    def followed_by(self, later: TailSearch) -> TailSearch:
        """Return this tail with rows that were added to it."""
        # The first space of the later rows is the last one here.
        spaces = later.spaces[1:] + len(self.words) - 1
        return TailSearch(
            self.words + later.words[1:],
            np.concatenate((self.spaces, spaces)),
            np.concatenate((self.hashes, later.hashes)),
            self.owners.followed_by(later.owners),
        )

    def look_up(self, term: str) -> tuple[Keys, Keys]:
        """Return keys and counts of a term."""
        word = term.encode()
        places: Keys = (self.hashes == _hash(word)).nonzero()[0]
        starts = (self.spaces.take(places) + 1).tolist()
        ends = self.spaces.take(places + 1).tolist()
        # Another word may have the same hash.
        is_same = [self.words[start:end] == word for start, end in zip(starts, ends, strict=True)]
        return self.owners.postings(places if all(is_same) else places[is_same])

    def look_up_prefix(self, prefix: str) -> tuple[Keys, Keys]:
        """Return keys and counts of all terms that begin with `prefix`."""
        pattern, found = f" {prefix}".encode(), list[int]()
        at = self.words.find(pattern)
        while at >= 0:
            found.append(at)
            at = self.words.find(pattern, at + 1)
        return self.owners.postings(self.spaces.searchsorted(found))


def block_of(tail: Tail) -> Block:
    """Return the messages of a tail as posting lists.

    Raises:
        StoreCorruptError: it is damaged.
    """
    with damage_reported():
        words = tail.words.decode().split(" ")[:-1]
    owners = Owners.of(tail.messages)
    terms = sorted(set(words))
    places = {term: place for place, term in enumerate(terms)}
    entries = np.array([places[word] for word in words], dtype=np.int64)
    if len(entries) != owners.entries:
        raise StoreCorruptError(WORDS_LOST)
    if not terms:
        return EMPTY
    held, keys, counts = owners.grouped(entries, np.arange(len(entries)))
    return Block(terms, np.bincount(held, minlength=len(terms)), keys, counts)


def joined(blocks: Sequence[Block]) -> Block:
    """Return the postings of several blocks in one; of each term, those of the first block come first."""
    blocks = [block for block in blocks if block.terms]
    if len(blocks) <= 1:
        return blocks[0] if blocks else EMPTY
    terms = sorted({term for block in blocks for term in block.terms})
    places = {term: place for place, term in enumerate(terms)}
    owners = np.concatenate(
        [np.array([places[term] for term in block.terms]).repeat(block.sizes) for block in blocks]
    )
    # Stable, and by counting where there are few terms.
    narrow = owners.astype(np.uint16) if len(terms) <= 1 << 16 else owners
    order = narrow.argsort(kind="stable")
    return Block(
        terms,
        np.bincount(owners, minlength=len(terms)),
        np.concatenate([block.keys for block in blocks]).take(order),
        np.concatenate([block.counts for block in blocks]).take(order),
    )


def extended(block: Block, new: Block) -> Block:
    """Return the postings of two blocks in one, as `joined` does; quick if few terms are new or changed."""
    if len(new.terms) * _FEW > len(block.terms):
        return joined([block, new])
    terms, sizes, ends = block.terms.copy(), block.sizes.copy(), block.ends
    places = [bisect_left(block.terms, term) for term in new.terms]
    last = len(block.terms)
    is_there = [
        place < last and block.terms[place] == term
        for place, term in zip(places, new.terms, strict=True)
    ]
    # After the postings of the term itself, or of the term before it.
    points = [place + held for place, held in zip(places, is_there, strict=True)]
    at = np.concatenate((_ZERO, ends)).take(points).repeat(new.sizes)
    for place, term, held in reversed([*zip(places, new.terms, is_there, strict=True)]):
        if not held:
            terms.insert(place, term)
    held_places = np.array(is_there, dtype=np.bool_)
    where = np.array(places, dtype=np.int64)
    sizes[where[held_places]] += new.sizes[held_places]
    return Block(
        terms,
        np.insert(sizes, where[~held_places], new.sizes[~held_places]),
        np.insert(block.keys, at, new.keys),
        np.insert(block.counts, at, new.counts),
    )


def split(block: Block, *, postings_max: int, terms_max: int) -> Iterator[Block]:
    """Yield parts of a block, each with so many postings and terms at most, or with one term."""
    places, postings = [0], 0
    for place, size in enumerate(block.sizes.tolist()):
        begun = place - places[-1]
        if begun and (postings + size > postings_max or begun >= terms_max):
            places.append(place)
            postings = 0
        postings += size
    return block.cut_before(places) if block.terms else iter(())


def cut_full(block: Block, *, size: int) -> tuple[list[Block], Block]:
    """Return blocks of exactly `size` postings of one term each, and the rest of the block."""
    full: list[Block] = []
    is_cut = np.zeros(len(block.keys), dtype=np.bool_)
    ends = block.ends.tolist()
    for place in (block.sizes >= size).nonzero()[0].tolist():
        start = ends[place] - int(block.sizes[place])
        for at in range(start, ends[place] - size + 1, size):
            part = slice(at, at + size)
            one = np.array([size], dtype=np.int64)
            full.append(Block([block.terms[place]], one, block.keys[part], block.counts[part]))
            is_cut[part] = True
    return full, (block.only(~is_cut) if full else block)


def pack(block: Block) -> bytes:
    """Return a block as bytes."""
    body = b"".join(
        (
            _HEAD.pack(len(block.terms), len(block.keys)),
            _planes(block.sizes, "<u4"),
            _planes(block.keys, "<i8"),
            _planes(block.counts, "<u4"),
            " ".join(block.terms).encode(),
        )
    )
    return codec.compressor.compress(body)


def unpack(packed: bytes) -> Block:
    """Return the block that was packed.

    Raises:
        StoreCorruptError: the bytes are damaged.
    """
    found = PackedBlock(packed)
    return Block(found.terms, found.sizes, *found.postings(0, None))


class PackedBlock:
    """A packed block, of which only some posting lists are needed."""

    def __init__(self, packed: bytes) -> None:
        """Raise StoreCorruptError if the bytes are damaged."""
        with damage_reported():
            body = codec.decompressor.decompress(packed)
            terms, postings = _HEAD.unpack_from(body)
            ends = list(accumulate((_HEAD.size, 4 * terms, 8 * postings, 4 * postings)))
            self.sizes = _numbers(_planes_of(body, ends[0], terms, "<u4"), "<u4")
            self._keys = _planes_of(body, ends[1], postings, "<i8")
            self._counts = _planes_of(body, ends[2], postings, "<u4")
            self.terms = body[ends[3] :].decode().split(" ") if terms else []
        self._ends = self.sizes.cumsum()
        if len(self.terms) != terms or int(self.sizes.sum()) != postings:
            raise StoreCorruptError(WORDS_LOST)

    def postings(self, start: int, end: int | None) -> tuple[Keys, Keys]:
        """Return keys and counts of the postings from one place up to before another."""
        return (
            _numbers(self._keys[:, start:end], "<i8"),
            _numbers(self._counts[:, start:end], "<u4"),
        )

    def look_up(self, terms: Iterable[str]) -> Iterator[tuple[str, Keys, Keys]]:
        """Yield those of the terms that the block contains, with keys and counts."""
        for term in terms:
            place = bisect_left(self.terms, term)
            if place < len(self.terms) and self.terms[place] == term:
                end = int(self._ends[place])
                yield term, *self.postings(end - int(self.sizes[place]), end)

    def look_up_prefix(self, prefix: str) -> tuple[Keys, Keys]:
        """Return keys and counts of all terms that begin with `prefix`."""
        first = bisect_left(self.terms, prefix)
        last = bisect_left(self.terms, prefix + chr(0x10FFFF))
        if first >= last:
            return self.postings(0, 0)
        return self.postings(int(self._ends[first] - self.sizes[first]), int(self._ends[last - 1]))


def _planes(numbers: Keys, kind: str) -> bytes:
    """Return numbers by bytes of equal weight."""
    cells = np.ascontiguousarray(numbers, dtype=kind)
    return cells.view(np.uint8).reshape(-1, cells.itemsize).T.tobytes()


def _planes_of(body: bytes, at: int, count: int, kind: str) -> NDArray[np.uint8]:
    width = np.dtype(kind).itemsize
    found = np.frombuffer(body, dtype=np.uint8, count=count * width, offset=at)
    return found.reshape(width, count)


def _numbers(planes: NDArray[np.uint8], kind: str) -> Keys:
    return np.ascontiguousarray(planes.T).view(kind).reshape(-1).astype(np.int64)


class _Codec(threading.local):
    """The compressors of a thread: they must not be used by two at once."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


codec = _Codec()

"""The posting list of one term packed into bytes, to be unpacked whole in as few steps as possible.

Numbers are stored by bytes of equal weight, as in `blocks.py`, but only those bytes that are not zero in all of
them: of keys mostly three in eight, of counts one in eight.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from engram.errors import StoreCorruptError
from engram.storage.postings.blocks import codec
from engram.storage.postings.index import WORDS_LOST, PostingList
from engram.storage.postings.owners import damage_reported

Keys = NDArray[np.int64]

_HEAD = struct.Struct("<IBB")
"""Number of postings, and a bit for each stored byte of keys and of counts, the lowest for the lowest."""
_WIDTH = 8


def pack_list(postings: PostingList) -> bytes:
    """Return a posting list as bytes."""
    columns = [_bytes_of(column) for column in postings]
    head = _HEAD.pack(len(postings.keys), *(used for used, _ in columns))
    return head + codec.compressor.compress(b"".join(body for _, body in columns))


def unpack_list(packed: bytes) -> PostingList:
    """Return the posting list that was packed.

    Raises:
        StoreCorruptError: the bytes are damaged.
    """
    with damage_reported():
        count, *used = _HEAD.unpack_from(packed)
        body = codec.decompressor.decompress(packed[_HEAD.size :])
        if len(body) != count * sum(each.bit_count() for each in used):
            raise StoreCorruptError(WORDS_LOST)
        keys = _numbers_of(body, 0, count, used[0])
        counts = _numbers_of(body, count * used[0].bit_count(), count, used[1])
    return PostingList(keys, counts)


def _bytes_of(numbers: Keys) -> tuple[int, bytes]:
    """Return which bytes of the numbers are not all zero, as bits, and those bytes by weight."""
    any_of_all = int(np.bitwise_or.reduce(numbers))
    used = [weight for weight in range(_WIDTH) if any_of_all >> 8 * weight & 0xFF]
    cells = np.ascontiguousarray(numbers, dtype="<i8").view(np.uint8).reshape(-1, _WIDTH)
    return sum(1 << weight for weight in used), b"".join(
        cells[:, weight].tobytes() for weight in used
    )


def _numbers_of(body: bytes, at: int, count: int, used: int) -> Keys:
    numbers = np.zeros(count, dtype=np.int64)
    for weight in range(_WIDTH):
        if used >> weight & 1:
            part = np.frombuffer(body, dtype=np.uint8, count=count, offset=at).astype(np.int64)
            numbers |= part << 8 * weight
            at += count
    return numbers

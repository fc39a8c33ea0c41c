"""The lengths of messages as rows: those of neighbouring messages in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.errors import StoreCorruptError
from engram.limits import WINDOW_MESSAGES
from engram.storage.postings.index import WORDS_LOST

Keys = NDArray[np.int64]

PAGE_BITS = 6
"""A row of lengths has those of 64 neighbouring messages: few enough to write again with each append."""

LENGTH = np.dtype([("place", "u1"), ("telling", "<u4"), ("stops", "<u4")])


def packed_numbers(lengths: Mapping[int, tuple[int, ...]]) -> dict[str, list[Any]]:
    """Return the rows of lengths, by columns."""
    pages: dict[int, list[tuple[int, ...]]] = {}
    for key, numbers in lengths.items():
        place = key & (1 << PAGE_BITS) - 1
        pages.setdefault(key >> PAGE_BITS, []).append((place, *numbers))
    packed = [np.array(each, dtype=LENGTH).tobytes() for each in pages.values()]
    return {"page": [*pages], "packed": packed}


def length_rows(rows: Iterable[tuple[int, bytes]]) -> Keys:
    """Return key, telling words and all words of each message in rows of lengths."""
    stored = [*rows]
    if any(len(packed) % LENGTH.itemsize for _, packed in stored):
        raise StoreCorruptError(WORDS_LOST)
    pages, sizes = [page for page, _ in stored], [len(packed) for _, packed in stored]
    return _length_columns(
        np.array(pages, dtype=np.int64),
        np.array(sizes, dtype=np.int64),
        b"".join([packed for _, packed in stored]),
    )


def length_rows_together(pages: bytes | None, sizes: bytes | None, packed: bytes | None) -> Keys:
    """Return the same of rows in one value for each column."""
    numbers, lengths = (
        np.frombuffer(each or b"", dtype=">i8").astype(np.int64) for each in (pages, sizes)
    )
    if (lengths % LENGTH.itemsize).any():
        raise StoreCorruptError(WORDS_LOST)
    return _length_columns(numbers, lengths, packed or b"")


def _length_columns(pages: Keys, sizes: Keys, packed: bytes) -> Keys:
    found = np.frombuffer(packed, dtype=LENGTH)
    result = np.empty((len(found), 3), dtype=np.int64)
    result[:, 0] = (pages << PAGE_BITS).repeat(sizes // LENGTH.itemsize) + found["place"]
    result[:, 1] = found["telling"]
    result[:, 2] = result[:, 1] + found["stops"]
    return result


def with_ends(rows: Keys) -> Keys:
    """Return the rows of whole pages with rows below 0 for the messages after the last one of each.

    They may be in a window with it, and whoever has read its page knows that they do not exist.
    """
    if not len(rows):
        return rows
    keys = np.sort(rows[:, 0])
    is_last = np.append(keys[1:] >> PAGE_BITS != keys[:-1] >> PAGE_BITS, True)
    last = keys[is_last, np.newaxis]
    after = last + np.arange(1, WINDOW_MESSAGES)
    missing = after[after >> PAGE_BITS == last >> PAGE_BITS]
    ends = np.full((len(missing), rows.shape[1]), -1, dtype=np.int64)
    ends[:, 0] = missing
    return np.concatenate((rows, ends))

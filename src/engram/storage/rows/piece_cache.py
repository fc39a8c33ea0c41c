"""LRU cache of document pieces: neighbouring chunks lie in the same one.

A piece of a finished document never changes, and the number of a removed one is never given again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from engram.limits import DOCUMENT_PIECES_KEPT


class PieceCache:
    """The bytes of a few pieces by key; shared by all threads."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: int) -> bytes | None:
        """Return a piece if it is cached."""
        with self._lock:
            if key in self._pieces:
                self._pieces.move_to_end(key)
            return self._pieces.get(key)

    def put(self, key: int, data: bytes) -> None:
        """Add a piece, and evict the least recently used."""
        with self._lock:
            self._pieces[key] = data
            while len(self._pieces) > DOCUMENT_PIECES_KEPT:
                self._pieces.popitem(last=False)

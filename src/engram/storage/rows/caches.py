"""LRU caches of rows that never change: messages that searches delivered, and pieces of documents."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from engram.limits import DOCUMENT_PIECES_KEPT, MESSAGE_CHARACTERS_KEPT
from engram.model.conversation import Message

T = TypeVar("T")


class Latest(Generic[T]):
    """The last value of something, which may have changed since."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: T | None = None


class CachedMessage(NamedTuple):
    """A message, its hash, and the revision of the word index at which its row existed."""

    message: Message
    sha256: bytes
    revision: int


_Generation = dict[int, CachedMessage]


class MessageCache:
    """LRU cache of messages in two generations of half the bound, for what searches delivered last.

    A committed message never changes, and the number of a deleted conversation is never given again.
    Readers check the hash of the row once for each revision of the word index, which every change of
    messages increases: a message that is gone, or has another hash, is not taken from here. Thread-safe.
    """

    def __init__(self) -> None:
        self._recent: _Generation = {}
        self._older: _Generation = {}
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, key: int) -> CachedMessage | None:
        """Return the message of a row if it is cached."""
        found = self._recent.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: int, cached: CachedMessage) -> None:
        """Add the message of a row, or replace it."""
        with self._lock:
            if key not in self._recent:
                self._characters += len(cached.message.content)
            self._recent[key] = cached
            if self._characters > MESSAGE_CHARACTERS_KEPT // 2:
                self._recent, self._older = {}, self._recent
                self._characters = 0

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._recent, self._older = {}, {}
            self._characters = 0


class PieceCache:
    """LRU cache of document pieces: neighbouring chunks are in the same one.

    A piece of a finished document never changes, and the number of a removed one is never given again.
    Thread-safe.
    """

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

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._pieces.clear()

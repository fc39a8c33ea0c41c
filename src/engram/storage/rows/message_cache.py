"""LRU cache of messages in two generations, for what searches delivered last.

A committed message never changes, and the number of a deleted conversation is never given again.
Whoever asks reads the proof of the row once for each revision of the word index, which every change
of messages makes anew: a message that is gone, or whose proof is another, is not taken from here.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from engram.limits import MESSAGE_CHARACTERS_KEPT
from engram.model.conversation import Message


class CachedMessage(NamedTuple):
    """A message, and where its row was last seen to be there."""

    message: Message
    sha256: bytes
    revision: int


_Entries = dict[int, CachedMessage]


class MessageCache:
    """The messages used last, in two generations of half the bound; shared by all threads."""

    def __init__(self) -> None:
        self._recent: _Entries = {}
        self._older: _Entries = {}
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

    def put(self, key: int, known: CachedMessage) -> None:
        """Add the message of a row, or replace it."""
        with self._lock:
            if key not in self._recent:
                self._characters += len(known.message.content)
            self._recent[key] = known
            if self._characters > MESSAGE_CHARACTERS_KEPT // 2:
                self._recent, self._older = {}, self._recent
                self._characters = 0

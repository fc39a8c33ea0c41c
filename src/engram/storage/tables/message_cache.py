"""Remember the messages that searches found last: the next question is often about the same.

A committed message never changes, and the number of a deleted conversation is never given again.
Whoever asks reads the proof of the row, so that a message which is gone, or whose proof is another,
is not taken from here.
"""

from __future__ import annotations

import threading

from engram.limits import MESSAGE_CHARACTERS_KEPT
from engram.model.conversation import Message

_Entries = dict[int, tuple[bytes, Message]]


class MessageCache:
    """The messages used last, in two generations of half the bound; shared by all threads."""

    def __init__(self) -> None:
        self._recent: _Entries = {}
        self._older: _Entries = {}
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, key: int) -> tuple[bytes, Message] | None:
        """Return the proof and the message of a row if they are remembered."""
        found = self._recent.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self._put(key, found)
        return found

    def put(self, key: int, message: Message, *, sha256: bytes) -> None:
        """Remember the message of a row."""
        self._put(key, (sha256, message))

    def _put(self, key: int, entry: tuple[bytes, Message]) -> None:
        with self._lock:
            self._recent[key] = entry
            self._characters += len(entry[1].content)
            if self._characters > MESSAGE_CHARACTERS_KEPT // 2:
                self._recent, self._older = {}, self._recent
                self._characters = 0

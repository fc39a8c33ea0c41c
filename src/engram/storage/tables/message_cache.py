"""Remember the messages that searches found last: the next question is often about the same.

A committed message never changes, and the number of a deleted conversation is never given again.
Whoever asks has read the row, so that a message which is gone, or whose proof is another, is not
taken from here.
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

    def get(self, key: int, *, sha256: bytes) -> Message | None:
        """Return the message of a row if it is remembered."""
        found = self._recent.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self._put(key, found)
        return found[1] if found is not None and found[0] == sha256 else None

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

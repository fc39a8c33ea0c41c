"""Remember the words of the last messages of conversations, which the next append indexes again.

An entry is right as long as its conversation still ends where the entry does: a committed message
never changes, and the number of a deleted conversation is never given again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from engram import limits
from engram.limits import WINDOW_MESSAGES

TAIL_MESSAGES = WINDOW_MESSAGES - 1
"""No window that an append may change or add begins further back."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The words, for windows, of the last messages of a conversation that ends at `last_sequence`."""

    conversation: int
    last_sequence: int
    parts: tuple[str, ...]

    @property
    def characters(self) -> int:
        return sum(map(len, self.parts))


class TailCache:
    """The tails of the conversations used last, bounded in characters."""

    def __init__(self) -> None:
        self._tails: OrderedDict[int, Tail] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, conversation: int, *, last_sequence: int) -> Tail | None:
        """Return the tail of a conversation that ends at `last_sequence`, if it is remembered."""
        tail = self._tails.get(conversation)
        return tail if tail is not None and tail.last_sequence == last_sequence else None

    def put(self, tail: Tail) -> None:
        """Remember a tail whose messages are committed, and forget the oldest ones for it."""
        with self._lock:
            known = self._tails.get(tail.conversation)
            if known is not None:
                if known.last_sequence >= tail.last_sequence:
                    return
                self._forget(tail.conversation)
            self._tails[tail.conversation] = tail
            self._characters += tail.characters
            while self._characters > limits.TAIL_CHARACTERS_KEPT:
                self._forget(next(iter(self._tails)))

    def _forget(self, conversation: int) -> None:
        self._characters -= self._tails.pop(conversation).characters


def tail_after(tail: Tail, added: Sequence[str]) -> Tail:
    """Return the tail once messages with the words `added` have followed."""
    parts = (*tail.parts, *added)[-TAIL_MESSAGES:]
    return Tail(tail.conversation, tail.last_sequence + len(added), parts)

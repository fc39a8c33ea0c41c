"""Form the rows of windows from the words of a conversation's messages, as these pass by."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from engram.limits import WINDOW_MESSAGES
from engram.text.windows import Window, window, window_count


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window and the words it is found by."""

    window: Window
    words: str


class WindowFormer:
    """Forms the windows from `first` on, of a conversation that ends at `last_sequence`.

    It is fed the words of every message from the start of the window `first`, in order.
    """

    def __init__(self, *, first: int, last_sequence: int) -> None:
        self._last_sequence = last_sequence
        self._numbers = iter(range(first, window_count(last_sequence)))
        self._recent: deque[str] = deque(maxlen=WINDOW_MESSAGES)
        self._next = self._advance()

    def add(self, sequence: int, part: str) -> list[WindowRow]:
        """Take the next message's words; return the windows that end with it."""
        self._recent.append(part)
        rows: list[WindowRow] = []
        while self._next is not None and self._next.end == sequence:
            length = self._next.end - self._next.start + 1
            rows.append(WindowRow(self._next, " ".join(list(self._recent)[-length:])))
            self._next = self._advance()
        return rows

    def _advance(self) -> Window | None:
        number = next(self._numbers, None)
        return None if number is None else window(number, last_sequence=self._last_sequence)

"""A least rate, measured over windows of time so that neither a burst nor a pause is judged alone."""

from __future__ import annotations

from engram.transport.edge.bounds import EdgeBounds


class Window:
    """Bytes moved since the window began."""

    __slots__ = ("_bytes_min", "_seconds", "moved", "since")

    def __init__(self, bounds: EdgeBounds) -> None:
        self._seconds = bounds.transfer_window_s
        self._bytes_min = bounds.window_bytes_min
        self.since = 0.0
        self.moved = 0

    def restart(self, now: float) -> None:
        """Begin another window."""
        self.since = now
        self.moved = 0

    def is_too_slow(self, now: float) -> bool:
        """Return True if a whole window has passed without enough bytes; if with, begin another."""
        if now - self.since < self._seconds:
            return False
        if self.moved < self._bytes_min:
            return True
        self.restart(now)
        return False

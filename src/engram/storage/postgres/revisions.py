"""What this process knows of the revision of an organisation."""

from __future__ import annotations

import threading
from math import inf
from time import monotonic


class SeenRevision:
    """The newest revision that any thread has seen, and when it was surely the newest of all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._revision = 0
        self._newest_at = -inf
        self._doubted_at = -inf

    @property
    def revision(self) -> int:
        """What every later read of this process shows, or a newer one."""
        return self._revision

    @property
    def newest_at(self) -> float:
        """A moment of the monotonic clock at which nobody had written a newer one."""
        return self._newest_at

    def note(self, revision: int, *, newest_at: float = -inf) -> None:
        """Take note of a revision, and of when it was the newest that the primary had."""
        with self._lock:
            self._revision = max(self._revision, revision)
            # Who asked before somebody told of a write may have been answered before it.
            if newest_at > self._doubted_at:
                self._newest_at = max(self._newest_at, newest_at)

    def doubt(self) -> None:
        """Take note that somebody has written since."""
        with self._lock:
            self._newest_at = -inf
            self._doubted_at = monotonic()

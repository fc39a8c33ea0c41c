"""File descriptors of this process: how many connections to files it may have open at once.

SQLite reports a lack of descriptors like a lack of permissions. So connections are counted against the
limit of the process: those that are idle give way to those that are needed, and who finds none free waits.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import OrderedDict, deque
from typing import Protocol

from engram import limits
from engram.errors import OpenFilesError

_SCARCE = (errno.EMFILE, errno.ENFILE)
_GIVE_WAY_S = 0.02
"""How long a file that gives way has until the next one is asked: its writer may be at work."""


def files_max() -> int | None:
    """Return how many files this process may have open; None if the system sets no limit."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft >= 0 else None  # a limit below zero is none


def connections_max() -> int:
    """Return how many connections leave half of the descriptors to sockets, and some to all else."""
    limit = files_max()
    share = limits.OPEN_FILES_BESIDE_CONNECTIONS
    if limit is not None:
        share = min(share, limit // 2)
    possible = (share - limits.OPEN_FILES_RESERVED) // limits.FILES_PER_CONNECTION
    return max(possible, limits.FILE_CONNECTIONS_MIN)


def are_used_up() -> bool:
    """Return True if no file can be opened for want of a descriptor."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    except OSError as exc:
        return exc.errno in _SCARCE
    os.close(descriptor)
    return False


def lack_of_descriptors() -> OpenFilesError:
    """Return the error that names the limit and the remedy."""
    return OpenFilesError(
        f"the {files_max() or 'available'} file descriptors of this process are in use:"
        " raise the limit (`ulimit -n`, or LimitNOFILE of a service) or send fewer requests at once"
    )


class IdleHolder(Protocol):
    """A file that may have idle connections."""

    def give_way(self) -> None:
        """Close idle connections without waiting."""
        ...


class OpenConnections:
    """Counts the connections of the process, and grants new ones in the order they were asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._waiting: deque[threading.Event] = deque()
        self._idle: OrderedDict[IdleHolder, None] = OrderedDict()

    def note_idle(self, holder: IdleHolder) -> None:
        """Record that a file, used just now, keeps a connection open between uses."""
        with self._lock:
            self._idle[holder] = None
            self._idle.move_to_end(holder)

    def forget(self, holder: IdleHolder) -> None:
        """Record that a file keeps none open."""
        with self._lock:
            self._idle.pop(holder, None)

    def acquire(self) -> None:
        """Count one more connection; wait for another to be closed if there are too many.

        Raises:
            OpenFilesError: none was closed in time.
        """
        with self._lock:
            if not self._waiting and self._open < connections_max():
                self._open += 1
                return
            granted = threading.Event()
            self._waiting.append(granted)
        deadline = time.monotonic() + limits.STORE_BUSY_S
        while not granted.wait(_GIVE_WAY_S if self.ask_idle() else limits.FILE_RETRY_S):
            if time.monotonic() > deadline and self._withdraw(granted):
                raise lack_of_descriptors()

    def release(self) -> None:
        """Count one connection less, and let who has waited longest have it."""
        with self._lock:
            self._open -= 1
            while self._waiting and self._open < connections_max():
                self._waiting.popleft().set()
                self._open += 1

    def ask_idle(self) -> bool:
        """Have the file that was used least recently close what is idle; return False if none is."""
        with self._lock:
            if not self._idle:
                return False
            holder, _ = self._idle.popitem(last=False)
        holder.give_way()
        return True

    def _withdraw(self, granted: threading.Event) -> bool:
        """Stop waiting; return False if the connection was granted meanwhile."""
        with self._lock:
            if granted.is_set():
                return False
            self._waiting.remove(granted)
            return True


OPEN_CONNECTIONS = OpenConnections()
"""Of this process: the limit is its own, however many stores it has open."""

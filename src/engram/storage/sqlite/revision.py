"""Tell whether a file has changed, whichever process changed it.

SQLite tells each connection when others have committed since it last looked. A number that grows
whenever a connection hears of that, or looks for the first time, is never the same after a commit.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock

from engram.storage.rows.database import Connection
from engram.storage.sqlite.connection import WatchingConnection


class Revision:
    """The changes of one file that its connections came to see; it is good for one open file."""

    def __init__(self) -> None:
        self._file = object()
        self._lock = Lock()
        self._number = 0

    def seen_by(self, connection: Connection) -> Hashable:
        """Return what stands for the content that a connection reads in its transaction."""
        if not isinstance(connection, WatchingConnection):
            raise TypeError("a connection that does not watch")
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        with self._lock:
            if connection.version_seen != version:
                connection.version_seen = version
                self._number += 1
            return self._file, self._number

"""Hear by LISTEN which keys others have ended, and notice a fail-over.

Nothing else is notified: NOTIFY takes a lock that serialises the commits of all organisations until each is on
disk and on the standbys, and for keys alone somebody waits. Work is found by its due time.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import closing, suppress
from dataclasses import dataclass

import psycopg

from engram.model.ids import OrganizationId
from engram.model.status import KeysChanged
from engram.storage.postgres.connection import Driver
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/changes.sql")

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause after a failed connection."""


def tell_keys(connection: Connection, organization_id: OrganizationId) -> None:
    """Have every process drop its cached keys of an organisation when the transaction is committed."""
    connection.execute(_SQL["tell_keys"], {"organization_id": organization_id})


@dataclass(frozen=True, slots=True)
class _Listener:
    loop: asyncio.AbstractEventLoop
    heard: asyncio.Queue[KeysChanged | None]

    def tell(self, change: KeysChanged | None) -> None:
        # Raised by a loop that has been closed.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.heard.put_nowait, change)


class Changes:
    """Receives notifications on one connection and thread, started by the first use."""

    def __init__(self, connect: Callable[[], Driver], *, look: Callable[[Driver], None]) -> None:
        """Use a connection of `connect`, with which `look` is called."""
        self._connect = connect
        self._look_at = look
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_loss_told = False
        self._listeners: list[_Listener] = []
        self._bell: _Bell

    async def follow(self) -> AsyncGenerator[KeysChanged]:
        """Yield the changes of other processes until this is closed; those during an outage are missed."""
        listener = _Listener(asyncio.get_running_loop(), asyncio.Queue())
        with self._lock:
            if self._is_closed:
                return
            self._listeners.append(listener)
        self._look()
        try:
            while (change := await listener.heard.get()) is not None:
                yield change
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def close(self) -> None:
        """End; blocks until then."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            self._bell.ring()
            thread.join()
            self._bell.close()
        self._tell_listeners(None)

    def _look(self) -> None:
        """Wake the thread, and start it if there is none."""
        with self._lock:
            if self._is_closed:
                return
            if self._thread is None:
                self._bell = _Bell()
                self._thread = threading.Thread(
                    target=self._run, name="engram-changes", daemon=True
                )
                self._thread.start()
            self._bell.ring()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                with closing(self._connect()) as driver:
                    self._look_at(driver)
                    driver.execute(_SQL["listen"].encode())
                    self._is_loss_told = False
                    self._converse(driver)
            except psycopg.Error as exc:
                self._note_loss(exc)
                self._bell.wait(RETRY_S)
            except Exception:
                logger.exception("hearing other processes failed; it will be tried again")
                self._bell.wait(RETRY_S)

    def _converse(self, driver: Driver) -> None:
        # Notifications before the connection were missed.
        self._tell_listeners(KeysChanged(None))
        while not self._is_closed:
            self._bell.wait(None, driver)
            for notification in driver.notifies(timeout=0):
                self._tell_listeners(KeysChanged(OrganizationId(notification.payload)))

    def _tell_listeners(self, change: KeysChanged | None) -> None:
        with self._lock:
            listeners = [*self._listeners]
        for listener in listeners:
            listener.tell(change)

    def _note_loss(self, error: psycopg.Error) -> None:
        if not self._is_loss_told:
            logger.warning("what other processes do is seen later for now: %s", error)
        self._is_loss_told = True


class _Bell:
    """Socket pair that wakes a thread which waits for a connection to be readable."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.settimeout(0)
        self._far.settimeout(0)

    def ring(self) -> None:
        # A full buffer wakes the thread as well.
        with suppress(BlockingIOError):
            self._near.send(b"!")

    def wait(self, timeout_s: float | None, driver: Driver | None = None) -> None:
        """Return when it rings, the connection is readable, or time is up."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._far, selectors.EVENT_READ)
            if driver is not None:
                selector.register(driver, selectors.EVENT_READ)
            selector.select(timeout_s)
        with suppress(BlockingIOError):
            self._far.recv(4_096)

    def close(self) -> None:
        self._near.close()
        self._far.close()


class TimelineWatch:
    """Calls `forget` when the timeline of the database has changed: by fail-over or a restore.

    Without synchronous replication the new primary may lack rows that this process has seen, and
    give their numbers to others.
    """

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self._lock = threading.Lock()
        self._timeline: str | None = None

    def look(self, driver: Driver) -> None:
        """Compare the timeline of a new connection with the one before."""
        timeline = _timeline_of(driver)
        with self._lock:
            known, self._timeline = self._timeline, timeline
        if known not in (None, timeline):
            logger.warning("another server has taken over the database")
            self._forget()


def _timeline_of(driver: Driver) -> str | None:
    try:
        row = driver.execute(_SQL["timeline"].encode()).fetchone()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported):
        # Some hosted services forbid the function.
        return None
    return None if row is None else row[0]

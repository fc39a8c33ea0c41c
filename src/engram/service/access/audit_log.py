"""Copies audit rows as lines of JSON to a file or to syslog.

A thread of its own writes, so that no request waits for it. Lines that cannot be written are
counted and logged; the rows themselves are in the store.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import Full, Queue
from typing import Protocol

import orjson

from engram import limits
from engram.clock import format_time
from engram.errors import ConfigurationError
from engram.model.access import AuditRecord
from engram.service.access.usage import Activity

logger = logging.getLogger(__name__)

SETTING = "ENGRAM_AUDIT_LOG"
SYSLOG = "syslog:"
SYSLOG_SOCKET = "/dev/log"
_PRIORITY = 86
"""Facility `authpriv`, severity `info`."""

_SEND_S = 1.0
_CLOSE_S = 5.0


class Sink(Protocol):
    """A destination of lines."""

    def write(self, line: bytes) -> None:
        """Write one line.

        Raises:
            OSError: it could not be written.
        """
        ...

    def close(self) -> None:
        """Close the file or socket."""
        ...


class AuditLog:
    """A bounded queue of audit rows, and the thread that writes them."""

    def __init__(self, sink: Sink, activity: Activity) -> None:
        self._sink = sink
        self._activity = activity
        self._queue: Queue[AuditRecord | None] = Queue(limits.AUDIT_QUEUE_MAX)
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="engram-audit-log", daemon=True)
        self._thread.start()

    def put(self, records: Sequence[AuditRecord]) -> None:
        """Queue rows; those that a full queue does not take are counted as lost."""
        for record in records:
            try:
                self._queue.put_nowait(record)
            except Full:
                self._lose("the queue is full")

    def close(self) -> None:
        """Write what is queued, within a timeout."""
        try:
            self._queue.put(None, timeout=_CLOSE_S)
        except Full:
            logger.warning("the audit log is left with lines that could not be written")
            return
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (record := self._queue.get()) is not None:
            try:
                self._sink.write(line_of(record))
            except OSError as exc:
                self._lose(exc.strerror or str(exc))
            else:
                self._recover()
        self._sink.close()

    def _lose(self, reason: str) -> None:
        # One line in the log for an outage, however many rows it costs.
        if not self._failures:
            logger.warning("the audit log cannot be written: %s", reason)
        self._failures += 1
        self._activity.audit_lost += 1

    def _recover(self) -> None:
        if self._failures:
            logger.warning("the audit log is written again; %d lines are lost", self._failures)
            self._failures = 0


def line_of(record: AuditRecord) -> bytes:
    """Return a row as one line of JSON."""
    entry = record.entry
    return orjson.dumps(
        {
            "at": format_time(entry.at),
            "id": entry.id,
            "organization_id": record.organization_id,
            "actor": entry.actor,
            "action": entry.action,
            "subject": entry.subject,
            "details": dict(entry.details),
        }
    )


class FileSink:
    """A file that may be rotated: it is reopened when it is no longer at its path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = self._open()

    def write(self, line: bytes) -> None:
        if not self._is_in_place():
            self.close()
            self._descriptor = self._open()
        whole = line + b"\n"
        # One call for one line: other processes append to the same file.
        if os.write(self._descriptor, whole) != len(whole):
            raise OSError("a line was cut short")

    def close(self) -> None:
        os.close(self._descriptor)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False


class SyslogSink:
    """A syslog daemon behind a Unix socket or a UDP address."""

    def __init__(self, place: str | tuple[str, int]) -> None:
        self._place = place
        self._socket: socket.socket | None = None

    def write(self, line: bytes) -> None:
        try:
            self._connected().send(b"<%d>engram[%d]: %s" % (_PRIORITY, os.getpid(), line))
        except OSError:
            # The daemon may have restarted, with a new socket.
            self.close()
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = _connect(self._place)
        return self._socket


def _connect(place: str | tuple[str, int]) -> socket.socket:
    if isinstance(place, str):
        family, address = socket.AF_UNIX, place
    else:
        found = socket.getaddrinfo(*place, type=socket.SOCK_DGRAM)
        family, address = found[0][0], found[0][4]
    connected = socket.socket(family, socket.SOCK_DGRAM)
    try:
        connected.settimeout(_SEND_S)
        connected.connect(address)
    except OSError:
        connected.close()
        raise
    return connected


def build_audit_log(target: str, activity: Activity) -> AuditLog:
    """Return the log that the setting names.

    Raises:
        ConfigurationError: the setting is malformed, or the file cannot be opened.
    """
    if target.startswith(SYSLOG):
        return AuditLog(SyslogSink(_syslog_place(target.removeprefix(SYSLOG))), activity)
    path = Path(target).expanduser()
    try:
        return AuditLog(FileSink(path), activity)
    except OSError as exc:
        raise ConfigurationError(SETTING, f"{path}: {exc.strerror}") from exc


def _syslog_place(text: str) -> str | tuple[str, int]:
    if not text:
        return SYSLOG_SOCKET
    if text.startswith("/"):
        return text
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and len(port) <= 5):
        raise ConfigurationError(
            SETTING, "must be a file, syslog:, syslog:/path or syslog:host:port"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)

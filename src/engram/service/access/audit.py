"""The audit: events outside of transactions, and copies of all rows as lines of JSON.

Repeatable events, such as denied requests, are counted and written in the background, one row a minute
for each key and kind of event, so that a million denied requests cost the caller's organisation a few
rows. Lines are written by a thread of their own, so that no request waits for a file or syslog; those
that cannot be written are counted and logged.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from queue import Full, Queue
from typing import Protocol

import orjson
from msgspec import Struct

from engram import limits
from engram.clock import Clock, format_time
from engram.errors import AccessDeniedError, ConfigurationError, EngramError
from engram.model.access import ApiKey, AuditNote, AuditRecord, Principal
from engram.model.ids import KeyId, OrganizationId
from engram.model.value import replace
from engram.service.access.usage import Activity
from engram.storage.control.store import ControlStore

logger = logging.getLogger(__name__)

DENIED = "denied"
REFRESH = timedelta(hours=1)
"""How long an address counts as recorded; then it is recorded again, so that it stays a recent one."""

_Event = tuple[OrganizationId, str, str, bytes]
_Pair = tuple[KeyId, str]


class _Pending(Struct):
    note: AuditNote
    count: int = 0


class AuditTrail:
    """Collects the events of one process; `flush` writes them to the store."""

    def __init__(self, control: ControlStore, *, clock: Clock, activity: Activity) -> None:
        self._control = control
        self._clock = clock
        self._activity = activity
        self._pending: dict[_Event, _Pending] = {}
        self._addresses = _KeyAddresses(control, clock)

    def deny(self, principal: Principal, error: AccessDeniedError) -> None:
        """Count a request that a key's scopes or toolsets did not allow."""
        self.count(
            principal.organization_id,
            actor=principal.actor,
            action=DENIED,
            reason=error.code,
            required=error.required,
        )

    def deny_ended(self, key: ApiKey) -> None:
        """Count a request with a key that is revoked or has expired."""
        reason = "expired" if key.revoked_at is None else "revoked"
        self.count(key.organization_id, actor=key.id, action=DENIED, reason=reason)

    def count(
        self, organization_id: OrganizationId, *, actor: str, action: str, **details: object
    ) -> None:
        """Count an event; events with the same details since the last flush become one row."""
        event = (organization_id, actor, action, orjson.dumps(details))
        pending = self._pending.get(event)
        if pending is None:
            if len(self._pending) >= limits.AUDIT_PENDING_MAX:
                self._activity.audit_lost += 1
                return
            note = self._note(organization_id, actor, action, details)
            pending = self._pending[event] = _Pending(note)
        pending.count += 1

    def see(self, key_id: KeyId, address: str) -> None:
        """Collect that a key was used from an address."""
        self._addresses.see(key_id, address)

    async def record(self, principal: Principal, action: str, **details: object) -> None:
        """Write what a principal did to the store at once."""
        note = self._note(principal.organization_id, principal.actor, action, details)
        await self._control.record_audit([note])

    async def flush(self) -> None:
        """Write what was collected to the store; if that fails it is kept for the next time."""
        try:
            await self._flush_events()
            await self._addresses.flush()
        except EngramError:
            logger.exception("audit rows could not be written; they are kept for the next minute")

    def _note(
        self, organization_id: OrganizationId, actor: str, action: str, details: dict[str, object]
    ) -> AuditNote:
        return AuditNote(
            organization_id=organization_id,
            at=self._clock.now(),
            actor=actor,
            action=action,
            details=details,
        )

    async def _flush_events(self) -> None:
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            await self._control.record_audit([_counted(each) for each in pending.values()])
        except EngramError:
            self._pending = pending | self._pending
            raise


def _counted(pending: _Pending) -> AuditNote:
    return replace(pending.note, details={**pending.note.details, "count": pending.count})


class _KeyAddresses:
    """The pairs of key and address that this process saw since the last flush."""

    def __init__(self, control: ControlStore, clock: Clock) -> None:
        self._control = control
        self._clock = clock
        self._seen: dict[_Pair, datetime] = {}
        self._recorded: set[_Pair] = set()
        self._refresh_at = clock.now() + REFRESH

    def see(self, key_id: KeyId, address: str) -> None:
        pair = (key_id, address)
        if pair in self._recorded or len(self._seen) >= limits.AUDIT_PENDING_MAX:
            # Past the bound it is seen at its next use after a flush.
            return
        self._seen[pair] = self._clock.now()

    async def flush(self) -> None:
        seen, self._seen = self._seen, {}
        if not seen:
            return
        try:
            await self._control.note_addresses(_by_key(seen))
        except EngramError:
            self._seen = seen | self._seen
            raise
        now = self._clock.now()
        if now >= self._refresh_at or len(self._recorded) >= limits.KNOWN_CREDENTIALS_MAX:
            self._recorded.clear()
            self._refresh_at = now + REFRESH
        self._recorded.update(seen)


def _by_key(seen: dict[_Pair, datetime]) -> dict[KeyId, dict[str, datetime]]:
    by_key = dict[KeyId, dict[str, datetime]]()
    for (key_id, address), at in seen.items():
        by_key.setdefault(key_id, {})[address] = at
    return by_key


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

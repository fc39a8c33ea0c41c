"""Audit events outside of transactions: denied requests, bulk reads, addresses that keys are used from.

Repeatable events are counted and written in the background, one row a minute for each key and kind of
event, so that a million denied requests cost the caller's organisation a few rows.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import orjson
from msgspec import Struct

from engram import limits
from engram.clock import Clock
from engram.errors import AccessDeniedError, EngramError
from engram.model.access import ApiKey, AuditNote, Principal
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

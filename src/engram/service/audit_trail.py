"""Audits what no transaction does: denied requests, reads in bulk, and where keys are used from.

What can be repeated at will is counted: one row for each key and kind of event a minute, written
by the background. So being denied a million times costs a caller's organisation a few rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import orjson

from engram import limits
from engram.clock import Clock
from engram.errors import AccessDeniedError, EngramError
from engram.model.access import ApiKey, AuditNote, Principal
from engram.model.ids import KeyId, OrganizationId
from engram.service.activity import Activity
from engram.storage.control.store import ControlStore

if TYPE_CHECKING:
    from engram.service.key_addresses import KeyAddresses

logger = logging.getLogger(__name__)

DENIED = "denied"
_Event = tuple[OrganizationId, str, str, bytes]


@dataclass(slots=True)
class _Pending:
    note: AuditNote
    count: int = 0


class AuditTrail:
    """Collects events of one process; `flush` writes them down."""

    def __init__(self, control: ControlStore, *, clock: Clock, activity: Activity) -> None:
        self._control = control
        self._clock = clock
        self._activity = activity
        self._pending: dict[_Event, _Pending] = {}
        self._has_addresses = False

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
            note = AuditNote(
                organization_id=organization_id,
                at=self._clock.now(),
                actor=actor,
                action=action,
                details=details,
            )
            pending = self._pending[event] = _Pending(note)
        pending.count += 1

    def see(self, key_id: KeyId, address: str) -> None:
        """Note that a key was used from an address."""
        self._has_addresses = True
        self._addresses.see(key_id, address)

    @cached_property
    def _addresses(self) -> KeyAddresses:
        from engram.service.key_addresses import KeyAddresses  # noqa: PLC0415 only servers see addresses

        return KeyAddresses(self._control, self._clock)

    async def record(self, principal: Principal, action: str, **details: object) -> None:
        """Write down at once what a principal did."""
        note = AuditNote(
            organization_id=principal.organization_id,
            at=self._clock.now(),
            actor=principal.actor,
            action=action,
            details=details,
        )
        await self._control.record_audit([note])

    async def flush(self) -> None:
        """Write down what was collected; what cannot be written now is kept for the next time."""
        try:
            await self._flush_events()
            if self._has_addresses:
                await self._addresses.flush()
        except EngramError:
            logger.exception("audit rows could not be written; they are kept for the next minute")

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

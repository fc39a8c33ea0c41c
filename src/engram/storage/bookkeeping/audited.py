"""Gather the audit rows that a piece of work writes, for those who are told once it is durable."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from engram.model.access import AuditEntry, AuditRecord
from engram.model.ids import OrganizationId

Announce: TypeAlias = Callable[[Sequence[AuditRecord]], None]
"""Is told of audit rows that are durable, in the thread that wrote them; must not wait or raise."""

_gathered: ContextVar[list[AuditRecord] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering(records: list[AuditRecord] | None) -> Generator[None]:
    """Add the audit rows that are written in the block to `records`, unless nobody wants them."""
    token = _gathered.set(records)
    try:
        yield
    finally:
        _gathered.reset(token)


def is_wanted() -> bool:
    """Return True if somebody wants to know of the rows that are written now."""
    return _gathered.get() is not None


def note_row(organization_id: OrganizationId, entry: AuditEntry) -> None:
    """Take note of a row that was written."""
    records = _gathered.get()
    if records is not None:
        records.append(AuditRecord(organization_id=organization_id, entry=entry))

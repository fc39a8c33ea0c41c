"""Due times of background work: written with the work, so that nobody looks for it in organisations that have none.

A transaction that makes work marks its kind as due. Processes claim what is due for a while, do it, and settle it:
in a transaction of the organisation it is computed from the rows when there is work next. So a process that dies
before it has settled forgets nothing, and work that came meanwhile is seen. A mark needs no clock, leases are judged
by the rule of `storage.queue`, and two processes that work on the same kind are kept apart by the leases of that work.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from engram import limits
from engram.model.status import WorkKind
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Settled, Tenant, Transaction

NOW = 0
"""Due at once, by every clock."""

LATER = timedelta(hours=1)
"""Between two looks at what has a rule of retention, or is held in the trash after its time."""

RECHECK = timedelta(minutes=1)
"""The least time between two claims of work that is left, for example because it has no usable embedder."""

DUE_MAX = timedelta(days=2 * limits.TRASH_DAYS_MAX)
"""What is due later was written by a clock that is ahead, and counts as due."""

_SQL = load_queries("due.sql")
_MICROSECOND = timedelta(microseconds=1)
_LEASE_MAX = timedelta(seconds=limits.LEASE_S_MAX) // _MICROSECOND
_UPLOAD_LIFE = timedelta(minutes=limits.UPLOAD_MINUTES) // _MICROSECOND
_INTERVAL = timedelta(days=limits.SCRUB_DAYS) // _MICROSECOND


def due_bounds(now: int) -> dict[str, int]:
    """Return what a claim compares due times and leases with."""
    return {"now": now, "due_max": now + DUE_MAX // _MICROSECOND, "lease_max": now + _LEASE_MAX}


def mark_due(tx: Transaction, kind: WorkKind, *, at: int = NOW) -> None:
    """Record that an organisation has work, in the transaction that makes it."""
    marked = tx.execute(_SQL["mark_due"], kind=kind, due_at=at)
    listed = tx.tenant.due_list
    # Not read without a list: a server's answer would be waited for.
    if listed is not None and marked.rowcount:
        listed.note(kind, at)


async def settle_due(tenant: Tenant, kind: WorkKind, *, is_stuck: bool = False) -> bool:
    """Compute from the rows of an organisation when it has work of a kind next.

    Returns False, and changes nothing, if some can be claimed now; with `is_stuck` it is left alone for a while.
    """
    listed = tenant.due_list
    settling = partial(_settle, kind=kind, is_stuck=is_stuck)
    if listed is None:
        is_due = await tenant.read(partial(_is_due, kind=kind))
        return not is_due or await tenant.write(settling) is not None
    if (token := await listed.find(kind)) is None:
        return True
    settled = await tenant.write(settling)
    if settled is not None:
        await listed.settle(kind, token, settled)
    return settled is not None


def _is_due(tx: Transaction, *, kind: WorkKind) -> bool:
    return tx.execute(_SQL["is_due"], kind=kind).fetchone() is not None


def _settle(tx: Transaction, *, kind: WorkKind, is_stuck: bool) -> Settled | None:
    now = tx.shared_now()
    next_at = _next_at(tx, kind, now=now)
    if next_at is not None and next_at <= now and not is_stuck:
        return None
    settled = _when(next_at, now=now)
    if settled.due_at is None:
        tx.execute(_SQL["remove_due"], kind=kind)
        return settled
    tx.execute(_SQL["put_due"], kind=kind, due_at=settled.due_at)
    if tx.tenant.due_list is None:
        tx.execute(_SQL["lease_due"], kind=kind, lease_until=settled.lease_until)
    return settled


def _next_at(tx: Transaction, kind: WorkKind, *, now: int) -> int | None:
    values: dict[WorkKind, dict[str, int]] = {
        "documents": {"upload_life": _UPLOAD_LIFE},
        "jobs": {"later": now + LATER // _MICROSECOND},
        "scrub": {"now": now, "interval": _INTERVAL},
    }
    return tx.execute(_SQL[f"next_{kind}"], **values.get(kind, {})).fetchone()[0]


def _when(next_at: int | None, *, now: int) -> Settled:
    """Return when work is claimed next: soon by a lease, which no clock can make too long, else by its due time."""
    if next_at is None:
        return Settled(None, None)
    if next_at > now + _LEASE_MAX:
        return Settled(next_at, None)
    return Settled(NOW, max(next_at, now + RECHECK // _MICROSECOND))

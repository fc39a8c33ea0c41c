"""Background work as rows: leased to one process at a time, back when its lease expires."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from engram.clock import from_microseconds, to_microseconds
from engram.model.status import Job
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("bookkeeping/jobs.sql")


def enqueue(tx: Transaction, *, kind: str, subject: str, now: int) -> None:
    """Add a job unless one of that kind and subject waits already."""
    tx.execute(
        _SQL["enqueue_job"], id=tx.tenant.ids.new("job_"), kind=kind, subject=subject, now=now
    )


async def enqueue_job(tenant: Tenant, kind: str, subject: str) -> None:
    """Add a job unless one of that kind and subject waits already."""
    await tenant.write(lambda tx: enqueue(tx, kind=kind, subject=subject, now=tenant.now()))


async def claim_jobs(
    tenant: Tenant, kinds: Sequence[str], *, owner: str, lease: timedelta, limit: int
) -> tuple[Job, ...]:
    """Lease waiting or expired jobs, newest first; look before writing."""
    find = partial(_claimable, kinds=kinds, limit=limit)
    if not await tenant.read(find):
        return ()
    return await tenant.write(lambda tx: _lease(tx, find(tx), owner=owner, lease=lease))


async def finish_job(tenant: Tenant, job: Job, *, owner: str) -> bool:
    """Remove a job that is still leased to `owner`."""
    return await tenant.write(lambda tx: _change_leased(tx, "finish_job", job, owner=owner))


async def postpone_job(tenant: Tenant, job: Job, *, owner: str, delay: timedelta) -> bool:
    """Give a job back that is still leased to `owner`, to be claimed after `delay`."""
    available_at = to_microseconds(tenant.clock.now() + delay)

    def postpone(tx: Transaction) -> bool:
        # One like it was enqueued while this one ran: that one will do.
        if _change_leased(tx, "finish_repeated_job", job, owner=owner):
            return True
        return _change_leased(tx, "postpone_job", job, owner=owner, available_at=available_at)

    return await tenant.write(postpone)


def _claimable(tx: Transaction, *, kinds: Sequence[str], limit: int) -> list[int]:
    cursor = tx.execute(
        _SQL["find_claimable_jobs"], kinds=json.dumps(list(kinds)), now=tx.tenant.now(), limit=limit
    )
    return [row[0] for row in cursor]


def _lease(
    tx: Transaction, numbers: Sequence[int], *, owner: str, lease: timedelta
) -> tuple[Job, ...]:
    until = to_microseconds(tx.tenant.clock.now() + lease)
    rows = tx.execute(
        _SQL["claim_jobs"], owner=owner, until=until, numbers=json.dumps(numbers)
    ).fetchall()
    return tuple(
        Job(
            id=job_id,
            kind=kind,
            subject=subject,
            attempts=attempts,
            lease_until=from_microseconds(until),
        )
        for _, job_id, kind, subject, attempts in sorted(rows, reverse=True)
    )


def _change_leased(tx: Transaction, statement: str, job: Job, *, owner: str, **values: int) -> bool:
    """Run a statement on a job if this very lease of it still holds."""
    until = to_microseconds(job.lease_until)
    cursor = tx.execute(_SQL[statement], id=job.id, owner=owner, until=until, **values)
    return cursor.rowcount > 0

"""The lease queue of background work: one process at a time does a piece, and none is lost with it.

Work is a row of a table with the columns `available_at`, `attempts`, `lease_owner` and `lease_until`. A process
claims rows for a while, renews what takes longer, and finishes each in the transaction that stores its
result, or releases it to be tried again. Nothing runs when a lease expires: from then on any process can
claim the row. Until one does, a late result of its owner still counts; after that it is refused.
Leases are measured by the clock of the database where it has one. None is longer than `LEASE_MAX`: one that
seems to be was written by a clock that is ahead, and has expired.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar

from engram import limits
from engram.clock import from_microseconds
from engram.model.health import JobState
from engram.model.ids import DocumentId, MessageKey
from engram.model.status import Job
from engram.storage.due import mark_due
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction

RETRY_DELAY = timedelta(seconds=30)
"""After a failure; doubled with every attempt."""

RETRY_DELAY_MAX = timedelta(hours=1)
LEASE_MAX = timedelta(seconds=limits.LEASE_S_MAX)
ERASING_JOBS = ("erase", "remove_conversations")
"""Jobs of the work `erasing`; all others are of the work `jobs`."""

_DOUBLINGS_MAX = 20
_MICROSECOND = timedelta(microseconds=1)

_SQL = load_queries("queue.sql")
_CONDITIONS = ("claimable", "held")
"""Parts of other statements."""

KeyT = TypeVar("KeyT", bound=str | int)


def retry_delay(attempts: int) -> timedelta:
    """Return the delay before failed work is retried, given how often it was claimed."""
    return min(RETRY_DELAY * 2 ** min(attempts, _DOUBLINGS_MAX), RETRY_DELAY_MAX)


class Queue(Generic[KeyT]):
    """A lease queue over the rows of one table."""

    def __init__(self, table: str, *, key: str) -> None:
        conditions = {name: _SQL[name].format(key=key) for name in _CONDITIONS}
        self.statements = {
            name: sql.format(table=table, key=key, **conditions)
            for name, sql in _SQL.items()
            if name not in _CONDITIONS
        }
        self._find = f"find_{table}"

    def find(
        self, tx: Transaction, *, limit: int, again: str | None = None, **values: Any
    ) -> list[Any]:
        """Return the rows to claim next; the owner `again` may claim its own once more."""
        values |= {"limit": limit, "again": again, **_bounds(tx)}
        return tx.execute(self.statements[self._find], **values).fetchall()

    def claim(
        self, tx: Transaction, keys: Sequence[KeyT], *, owner: str, lease: timedelta
    ) -> dict[KeyT, int]:
        """Lease work to `owner`, whoever holds it; return how often each key was claimed."""
        rows = self._run(tx, "claim", keys, owner=owner, until=_after(tx, lease)).fetchall()
        attempts = dict(rows)
        return {key: attempts[key] for key in keys if key in attempts}

    def held(self, tx: Transaction, keys: Sequence[KeyT], *, owner: str) -> dict[KeyT, int]:
        """Return the keys that `owner` still holds, and how often each was claimed."""
        return dict(self._run(tx, "list_held", keys, owner=owner).fetchall())

    def renew(self, tx: Transaction, keys: Sequence[KeyT], *, owner: str, lease: timedelta) -> int:
        """Extend the leases that `owner` still holds; return how many."""
        return self._run(tx, "renew", keys, owner=owner, until=_after(tx, lease)).rowcount

    def release(
        self, tx: Transaction, keys: Sequence[KeyT], *, owner: str, delay: timedelta
    ) -> int:
        """Release work still leased to `owner`, to be claimed after `delay`."""
        available_at = _after(tx, delay)
        return self._run(tx, "release", keys, owner=owner, available_at=available_at).rowcount

    def finish(self, tx: Transaction, keys: Sequence[KeyT], *, owner: str) -> set[KeyT]:
        """Remove work still leased to `owner`; return its keys."""
        return {key for (key,) in self._run(tx, "finish", keys, owner=owner).fetchall()}

    def reset(self, tx: Transaction, key: KeyT) -> None:
        """Clear the lease and the attempts of a row."""
        tx.execute(self.statements["reset"], key=key)

    def is_leased(self, tx: Transaction) -> bool:
        """Return True if any process holds a lease."""
        found = tx.execute(self.statements["is_leased"], **_bounds(tx))
        return found.fetchone() is not None

    def _run(self, tx: Transaction, name: str, keys: Sequence[KeyT], **values: Any) -> Any:
        return tx.execute(self.statements[name], keys=json.dumps(keys), **values)


def _bounds(tx: Transaction) -> dict[str, int]:
    """Return the present moment, and the latest ends of a lease and of a delay that begin now."""
    now = tx.shared_now()
    return {
        "now": now,
        "lease_max": now + LEASE_MAX // _MICROSECOND,
        "delay_max": now + RETRY_DELAY_MAX // _MICROSECOND,
    }


def _after(tx: Transaction, span: timedelta) -> int:
    return tx.shared_now() + span // _MICROSECOND


JOBS = Queue[str]("job", key="id")
UNEMBEDDED = Queue[MessageKey]("unembedded", key="key")
DOCUMENTS = Queue[DocumentId]("document", key="id")
"""Rows in the state `indexing`; when that ends they are reset, and stay."""


def enqueue(tx: Transaction, *, kind: str, subject: str, now: int) -> None:
    """Add a job unless one of that kind and subject is waiting."""
    job_id = tx.tenant.ids.new("job_")
    tx.execute(_SQL["enqueue_job"], id=job_id, kind=kind, subject=subject, now=now)
    mark_due(tx, "erasing" if kind in ERASING_JOBS else "jobs")


class JobQueue(TenantStore):
    """The jobs of an organisation."""

    async def enqueue_job(self, kind: str, subject: str) -> None:
        """Add a job unless one of that kind and subject is waiting."""
        await self._tenant.write(
            lambda tx: enqueue(tx, kind=kind, subject=subject, now=tx.shared_now())
        )

    async def claim_jobs(
        self, kinds: Sequence[str], *, owner: str, lease: timedelta, limit: int
    ) -> tuple[Job, ...]:
        """Lease up to `limit` waiting or expired jobs to `owner`, newest first.

        It reads before it writes: a call that finds no work takes no write lock.
        """

        def find(tx: Transaction) -> list[tuple[str, str, str]]:
            return JOBS.find(tx, limit=limit, kinds=json.dumps(list(kinds)))

        def claim(tx: Transaction) -> tuple[Job, ...]:
            found = find(tx)
            attempts = JOBS.claim(tx, [each for each, _, _ in found], owner=owner, lease=lease)
            until = from_microseconds(_after(tx, lease))
            return tuple(
                Job(id=each, kind=kind, subject=subject, attempts=attempts[each], lease_until=until)
                for each, kind, subject in found
            )

        return await self._tenant.write(claim) if await self._tenant.read(find) else ()

    async def list_jobs(self, *, limit: int) -> tuple[JobState, ...]:
        """Return the oldest jobs, waiting or leased."""
        rows = await self._tenant.read(
            lambda tx: tx.execute(_SQL["list_jobs"], limit=limit).fetchall()
        )
        return tuple(
            JobState(
                kind=kind,
                subject=subject,
                attempts=attempts,
                available_at=from_microseconds(available_at),
                lease_until=None if lease_until is None else from_microseconds(lease_until),
            )
            for kind, subject, attempts, available_at, lease_until in rows
        )

    async def finish_job(self, job: Job, *, owner: str) -> bool:
        """Remove a job still leased to `owner`; False when the lease was lost."""
        return await self._tenant.write(
            lambda tx: _is_held(tx, job, owner) and bool(JOBS.finish(tx, [job.id], owner=owner))
        )

    async def postpone_job(self, job: Job, *, owner: str, delay: timedelta) -> bool:
        """Release a failed job, to be claimed after `delay`; False when the lease was lost.

        It is dropped if the same job was enqueued again meanwhile.
        """

        def postpone(tx: Transaction) -> bool:
            if not _is_held(tx, job, owner):
                return False
            if not tx.execute(_SQL["drop_repeated_job"], id=job.id).rowcount:
                JOBS.release(tx, [job.id], owner=owner, delay=delay)
            return True

        return await self._tenant.write(postpone)


def _is_held(tx: Transaction, job: Job, owner: str) -> bool:
    """Return True if nobody has claimed a job since, this owner included."""
    return JOBS.held(tx, [job.id], owner=owner).get(job.id) == job.attempts

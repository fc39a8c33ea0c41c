"""Keep what people say of recalled memories, apart from the memories: recalling writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable

from engram import limits
from engram.model.access import Quota
from engram.model.memory import Feedback
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.stored_size import measure_feedback
from engram.storage.memories.rows import find_memory
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant

_SQL = load_queries("memories/feedback.sql")

_DOUBT = 4
"""What is said of a memory once or twice weighs little: as if as many had been undecided."""


def record_feedback(
    connection: Connection, tenant: Tenant, feedback: Feedback, *, actor: str, quota: Quota
) -> int:
    """Keep what was said of each memory, and the whole of it in the audit; return how many.

    Of an event without memories, which is a recall that found nothing of use, the audit row is all.
    """
    numbers = [find_memory(connection, tenant, each) for each in dict.fromkeys(feedback.memory_ids)]
    now = tenant.now()
    added = 0
    for number in numbers:
        before = measure_feedback(connection, tenant, number)
        _put(connection, tenant, number, feedback, actor=actor, now=now)
        added += measure_feedback(connection, tenant, number) - before
    grow_counters(connection, tenant, quota=quota, stored_bytes=added)
    audit.record(
        connection,
        tenant,
        now=now,
        actor=actor,
        action="memory_feedback",
        details={
            "memories": len(numbers),
            "helpful": feedback.helpful,
            "event_id": feedback.event_id,
            "failure_class": feedback.failure_class,
        },
    )
    return len(numbers)


def usefulness(connection: Connection, tenant: Tenant, numbers: Iterable[int]) -> dict[int, float]:
    """Return how useful memories proved, from -1 to 1; those nothing was said of are left out."""
    rows = tenant.execute(connection, _SQL["count_feedback"], numbers=json.dumps(list(numbers)))
    return {
        memory: (helpful - unhelpful) / (helpful + unhelpful + _DOUBT)
        for memory, helpful, unhelpful in rows
    }


def _put(
    connection: Connection,
    tenant: Tenant,
    memory: int,
    feedback: Feedback,
    *,
    actor: str,
    now: int,
) -> None:
    values = {
        "memory": memory,
        "helpful": feedback.helpful,
        "event_id": feedback.event_id,
        "failure_class": feedback.failure_class,
        "actor": actor,
        "now": now,
    }
    if tenant.execute(connection, _SQL["change_feedback"], **values).fetchone() is not None:
        return
    (number,) = tenant.execute(connection, _SQL["add_feedback"], **values).fetchone()
    upto = number - limits.FEEDBACK_KEPT
    tenant.execute(connection, _SQL["drop_feedback"], memory=memory, upto=upto)

"""Feedback on recalled memories, stored apart from them, so that recall itself writes nothing."""

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
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("memories/feedback.sql")

_DOUBT = 4
"""What is said of a memory once or twice weighs little: as if as many had been undecided."""


def record_feedback(tx: Transaction, feedback: Feedback, *, actor: str, quota: Quota) -> int:
    """Store the feedback on each memory and audit all of it; return how many memories it was about.

    Of an event without memories, which is a recall that found nothing of use, the audit row is all.
    """
    numbers = [find_memory(tx, each) for each in dict.fromkeys(feedback.memory_ids)]
    now = tx.tenant.now()
    added = 0
    for number in numbers:
        before = measure_feedback(tx, number)
        _put(tx, number, feedback, actor=actor, now=now)
        added += measure_feedback(tx, number) - before
    grow_counters(tx, quota=quota, stored_bytes=added)
    audit.record(
        tx,
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


def usefulness(tx: Transaction, numbers: Iterable[int]) -> dict[int, float]:
    """Return how useful memories proved, from -1 to 1; those nothing was said of are left out."""
    rows = tx.execute(_SQL["count_feedback"], numbers=json.dumps(list(numbers)))
    return {
        memory: (helpful - unhelpful) / (helpful + unhelpful + _DOUBT)
        for memory, helpful, unhelpful in rows
    }


def _put(tx: Transaction, memory: int, feedback: Feedback, *, actor: str, now: int) -> None:
    values = {
        "memory": memory,
        "helpful": feedback.helpful,
        "event_id": feedback.event_id,
        "failure_class": feedback.failure_class,
        "actor": actor,
        "now": now,
    }
    if tx.execute(_SQL["change_feedback"], **values).fetchone() is not None:
        return
    (number,) = tx.execute(_SQL["add_feedback"], **values).fetchone()
    upto = number - limits.FEEDBACK_KEPT
    tx.execute(_SQL["drop_feedback"], memory=memory, upto=upto)

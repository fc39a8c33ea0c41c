"""Apply an organisation's rules of retention, in steps that any process can go on with."""

from __future__ import annotations

from engram import limits
from engram.errors import ConflictError, HeldError, NotFoundError
from engram.model.ids import ConversationId, MemoryId
from engram.model.retention import RetentionReport
from engram.model.value import replace
from engram.storage.organization import OrganizationStore
from engram.storage.retention import Due, Place

APPLY_RETENTION = "apply_retention"
"""The kind of the job."""


async def apply_rules(
    store: OrganizationStore,
    *,
    actor: str,
    dry_run: bool = False,
    limit: int | None = limits.RETENTION_STEP_MAX,
) -> RetentionReport:
    """Remove for good what is older than its rule keeps it, each thing in its own transaction.

    What is under a legal hold or immutable stays, and is counted. With a `limit` it ends after so many
    removals, and the report says that it is not complete.
    """
    report, place, removed = RetentionReport(dry_run=dry_run), Place(), 0
    while place is not None:
        found, place = await store.retention.find_due(place)
        for due in found:
            if limit is not None and removed >= limit:
                return replace(report, is_complete=False)
            outcome = await _remove(store, due, actor=actor, dry_run=dry_run)
            report = _counted(report, due, outcome)
            removed += outcome == "removed" and not dry_run
    return report


async def _remove(store: OrganizationStore, due: Due, *, actor: str, dry_run: bool) -> str:
    """Remove what is due unless it is protected; return what became of it."""
    if due.is_held or due.is_immutable:
        return "held" if due.is_held else "immutable"
    if dry_run:
        return "removed"
    try:
        if due.thing.kind == "conversation":
            await store.delete_conversation(ConversationId(due.thing.id), actor=actor)
        else:
            await store.memories.purge(MemoryId(due.thing.id), actor=actor)
    except HeldError:
        return "held"  # placed meanwhile
    except (NotFoundError, ConflictError):
        return "gone"  # removed or made immutable meanwhile
    return "removed"


_COUNTED = {"conversation": "conversations", "note": "notes", "document": "documents"}


def _counted(report: RetentionReport, due: Due, outcome: str) -> RetentionReport:
    match outcome:
        case "held":
            return replace(report, held=report.held + 1)
        case "immutable":
            return replace(report, immutable=report.immutable + 1)
        case "removed":
            name = _COUNTED[due.thing.kind]
            counts = {name: getattr(report, name) + 1, "messages": report.messages + due.messages}
            return replace(report, **counts)
        case _:
            return report

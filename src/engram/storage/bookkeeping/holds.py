"""Legal holds: what they are on is deleted, trashed, expired and purged by nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from engram.clock import from_microseconds
from engram.errors import HeldError, LimitExceededError, NotFoundError
from engram.limits import HOLDS_MAX
from engram.model.retention import HoldDraft, LegalHold
from engram.model.search import Kind
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.row_hashes import LEGAL_HOLD
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bookkeeping/holds.sql")


class Thing(NamedTuple):
    """A conversation or memory, as holds and rules know it."""

    id: str
    kind: Kind
    project: str
    source: str | None
    """Of a memory; the agent of a conversation."""


def find_hold(tx: Transaction, thing: Thing) -> tuple[str, str] | None:
    """Return id and reason of a hold on something; None if there is none."""
    subject, kind, project, source = thing
    values = {"subject": subject, "kind": kind, "project": project, "source": source or ""}
    return tx.execute(_SQL["find_hold"], **values).fetchone()


def refuse_held(tx: Transaction, thing: Thing) -> None:
    """Raise `HeldError` if something is under a legal hold."""
    found = find_hold(tx, thing)
    if found is not None:
        raise HeldError(thing.id, hold=found[0], reason=found[1])


def has_holds(tx: Transaction) -> bool:
    """Return True if there is any legal hold."""
    return tx.execute(_SQL["has_holds"]).fetchone() is not None


def list_holds(tx: Transaction) -> list[LegalHold]:
    """Return all legal holds, the first placed first."""
    return list(map(_hold_of, tx.execute(_SQL["list_holds"]).fetchall()))


def add_hold(tx: Transaction, draft: HoldDraft, *, actor: str) -> LegalHold:
    """Place a legal hold, with its audit row.

    Raises:
        NotFoundError: it is on a conversation or memory that does not exist.
        LimitExceededError: there are too many.
    """
    if draft.id is not None and tx.execute(_SQL["find_thing"], id=draft.id).fetchone() is None:
        raise NotFoundError("conversation or memory", draft.id)
    count = len(list_holds(tx))
    if count >= HOLDS_MAX:
        raise LimitExceededError("holds", limit=HOLDS_MAX, actual=count + 1, unit="legal holds")
    values: dict[str, Any] = {
        "id": tx.tenant.ids.new("hold_"),
        "reason": draft.reason,
        "subject": draft.id,
        "kind": draft.kind,
        "project": draft.project,
        "source": draft.source,
        "created_at": tx.tenant.now(),
        "actor": actor,
    }
    tx.execute(_SQL["add_hold"], **values, row_hash=LEGAL_HOLD.hash(tx.tenant.id, values))
    _audit(tx, "hold_add", values["id"], actor)
    return _hold_of(tuple(values.values()))


def lift_hold(tx: Transaction, hold_id: str, *, actor: str) -> LegalHold:
    """Lift a legal hold and return it, with its audit row.

    Raises:
        NotFoundError: there is no such hold.
    """
    lifted = [hold for hold in list_holds(tx) if hold.id == hold_id]
    if not lifted:
        raise NotFoundError("legal hold", hold_id)
    tx.execute(_SQL["lift_hold"], id=hold_id)
    _audit(tx, "hold_lift", hold_id, actor)
    return lifted[0]


def _audit(tx: Transaction, action: str, hold_id: str, actor: str) -> None:
    audit.record(tx, now=tx.tenant.now(), actor=actor, action=action, subject=hold_id)


def _hold_of(row: Sequence[Any]) -> LegalHold:
    hold_id, reason, subject, kind, project, source, created_at, actor = row
    return LegalHold(
        id=hold_id,
        reason=reason,
        subject=subject,
        kind=kind,
        project=project,
        source=source,
        created_at=from_microseconds(created_at),
        created_by=actor,
    )

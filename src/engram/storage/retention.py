"""Rules of retention and legal holds of an organisation, and what the rules would remove.

A rule is about a kind, a project, a source, some of them or everything. Of the rules that are about a thing the
most specific one counts, and among equals the shortest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from engram.clock import from_microseconds
from engram.errors import LimitExceededError, NotFoundError
from engram.limits import RETENTION_RULES_MAX
from engram.model.ids import derived_id
from engram.model.retention import HoldDraft, LegalHold, RetentionDraft, RetentionRule
from engram.model.search import Kind
from engram.storage.bookkeeping import audit, holds
from engram.storage.bookkeeping.holds import Thing, find_hold
from engram.storage.bookkeeping.row_hashes import RETENTION_RULE
from engram.storage.due import mark_due
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction

_SQL = load_queries("retention.sql")
_DAY = 86_400_000_000
_PAGE_ROWS = 500


class Due(NamedTuple):
    """Something that is older than its rule keeps it."""

    thing: Thing
    messages: int
    is_held: bool
    is_immutable: bool


class Place(NamedTuple):
    """How far a scan has come: conversations first, then memories."""

    is_memories: bool = False
    at: int = -(2**62)
    number: int = 0


class RetentionStore(TenantStore):
    """The rules and holds of one organisation."""

    async def list_rules(self) -> tuple[RetentionRule, ...]:
        """Return all rules, by id."""
        return tuple(await self._tenant.read(_rules))

    async def set_rule(self, draft: RetentionDraft, *, actor: str) -> RetentionRule:
        """Add a rule, or replace the one about the same, with its audit row.

        Raises:
            LimitExceededError: there are too many.
        """
        return await self._tenant.write(lambda tx: _set_rule(tx, draft, actor=actor))

    async def remove_rule(self, rule_id: str, *, actor: str) -> RetentionRule:
        """Remove a rule and return it, with its audit row.

        Raises:
            NotFoundError: there is no such rule.
        """

        def write(tx: Transaction) -> RetentionRule:
            removed = [rule for rule in _rules(tx) if rule.id == rule_id]
            if not removed:
                raise NotFoundError("rule of retention", rule_id)
            tx.execute(_SQL["remove_rule"], id=rule_id)
            now = tx.tenant.now()
            audit.record(tx, now=now, actor=actor, action="retention_remove", subject=rule_id)
            return removed[0]

        return await self._tenant.write(write)

    async def list_holds(self) -> tuple[LegalHold, ...]:
        """Return all legal holds, the first placed first."""
        return tuple(await self._tenant.read(holds.list_holds))

    async def add_hold(self, draft: HoldDraft, *, actor: str) -> LegalHold:
        """Place a legal hold; see `bookkeeping.holds.add_hold`."""
        return await self._tenant.write(lambda tx: holds.add_hold(tx, draft, actor=actor))

    async def lift_hold(self, hold_id: str, *, actor: str) -> LegalHold:
        """Lift a legal hold; see `bookkeeping.holds.lift_hold`."""
        return await self._tenant.write(lambda tx: holds.lift_hold(tx, hold_id, actor=actor))

    async def find_due(self, place: Place) -> tuple[list[Due], Place | None]:
        """Return what is due among the next rows behind a place, and the place after them.

        None for the place when nothing is left to look at.
        """
        return await self._tenant.read(partial(_find_due, place=place))


def _rules(tx: Transaction) -> list[RetentionRule]:
    return list(map(_rule_of, tx.execute(_SQL["list_rules"]).fetchall()))


def _rule_of(row: Sequence[Any]) -> RetentionRule:
    rule_id, kind, project, source, keep_days, created_at, actor = row
    return RetentionRule(
        id=rule_id,
        kind=kind,
        project=project,
        source=source,
        keep_days=keep_days,
        created_at=from_microseconds(created_at),
        created_by=actor,
    )


def _set_rule(tx: Transaction, draft: RetentionDraft, *, actor: str) -> RetentionRule:
    selected = (draft.kind, draft.project, draft.source)
    values: dict[str, Any] = {
        "id": derived_id("ret_", repr(selected)),
        "kind": draft.kind,
        "project": draft.project,
        "source": draft.source,
        "keep_days": draft.keep_days,
        "created_at": tx.tenant.now(),
        "actor": actor,
    }
    known = {rule.id for rule in _rules(tx)}
    count = len(known | {values["id"]})
    if count > RETENTION_RULES_MAX:
        raise LimitExceededError("rules", limit=RETENTION_RULES_MAX, actual=count, unit="rules")
    tx.execute(_SQL["remove_rule"], id=values["id"])
    tx.execute(_SQL["add_rule"], **values, row_hash=RETENTION_RULE.hash(tx.tenant.id, values))
    mark_due(tx, "jobs")
    details = {"keep_days": draft.keep_days}
    audit.record(
        tx,
        now=values["created_at"],
        actor=actor,
        action="retention_set",
        subject=values["id"],
        details=details,
    )
    return _rule_of(tuple(values.values()))


def _find_due(tx: Transaction, *, place: Place) -> tuple[list[Due], Place | None]:
    rules = _rules(tx)
    if not rules:
        return [], None
    now = tx.tenant.now()
    before = now - min(rule.keep_days for rule in rules) * _DAY
    page = _old_memories if place.is_memories else _old_conversations
    rows = list(page(tx, place, before))
    found = [
        Due(thing, messages, find_hold(tx, thing) is not None, is_immutable)
        for thing, messages, is_immutable, changed_at, _ in rows
        if _is_due(rules, thing, changed_at, now)
    ]
    if len(rows) == _PAGE_ROWS:
        *_, at, number = rows[-1]
        return found, Place(place.is_memories, at, number)
    return found, None if place.is_memories else Place(is_memories=True)


_Old = tuple[Thing, int, bool, int, int]
"""A thing, its messages, whether it is immutable, its last change and its number."""


def _old_conversations(tx: Transaction, place: Place, before: int) -> Iterator[_Old]:
    asked = {"before": before, "after_at": place.at, "after": place.number, "limit": _PAGE_ROWS}
    for number, public_id, project, agent, at, messages in tx.execute(
        _SQL["old_conversations"], **asked
    ):
        yield Thing(public_id, "conversation", project, agent), messages, False, at, number


def _old_memories(tx: Transaction, place: Place, before: int) -> Iterator[_Old]:
    asked = {"before": before, "after": place.number, "limit": _PAGE_ROWS}
    for number, public_id, project, source, at, is_document, immutable in tx.execute(
        _SQL["old_memories"], **asked
    ):
        kind: Kind = "document" if is_document else "note"
        yield Thing(public_id, kind, project, source), 0, bool(immutable), at, number


def _is_due(rules: Sequence[RetentionRule], thing: Thing, changed_at: int, now: int) -> bool:
    matching = [rule for rule in rules if _is_about(rule, thing)]
    if not matching:
        return False
    counting = min(matching, key=lambda rule: (-_specificity(rule), rule.keep_days))
    return changed_at <= now - counting.keep_days * _DAY


def _is_about(rule: RetentionRule, thing: Thing) -> bool:
    return (
        rule.kind in (None, thing.kind)
        and rule.project in (None, thing.project)
        and rule.source in (None, thing.source)
    )


def _specificity(rule: RetentionRule) -> int:
    return sum(each is not None for each in (rule.kind, rule.project, rule.source))

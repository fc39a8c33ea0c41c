"""Use cases of retention: rules, legal holds, and applying the rules."""

from __future__ import annotations

from engram.model.access import Principal
from engram.model.retention import (
    HoldDraft,
    LegalHold,
    RetentionDraft,
    RetentionReport,
    RetentionRule,
)
from engram.service import UseCases
from engram.service.work.retention import apply_rules


class Retention(UseCases):
    """How long an organisation keeps things, and what it keeps whatever the rules say."""

    async def list_rules(self, principal: Principal) -> tuple[RetentionRule, ...]:
        """Return the rules of retention."""
        return await (await self._open(principal, "admin")).retention.list_rules()

    async def set_rule(self, principal: Principal, draft: RetentionDraft) -> RetentionRule:
        """Add a rule, or replace the one about the same."""
        store = await self._open(principal, "admin")
        return await store.retention.set_rule(draft, actor=principal.actor)

    async def remove_rule(self, principal: Principal, rule_id: str) -> RetentionRule:
        """Remove a rule, and return it."""
        store = await self._open(principal, "admin")
        return await store.retention.remove_rule(rule_id, actor=principal.actor)

    async def run(self, principal: Principal, *, dry_run: bool) -> RetentionReport:
        """Remove for good what the rules no longer keep, or only count it."""
        store = await self._open(principal, "admin", "delete")
        return await apply_rules(store, actor=principal.actor, dry_run=dry_run, limit=None)

    async def list_holds(self, principal: Principal) -> tuple[LegalHold, ...]:
        """Return the legal holds."""
        return await (await self._open(principal, "admin")).retention.list_holds()

    async def add_hold(self, principal: Principal, draft: HoldDraft) -> LegalHold:
        """Place a legal hold."""
        store = await self._open(principal, "admin")
        return await store.retention.add_hold(draft, actor=principal.actor)

    async def lift_hold(self, principal: Principal, hold_id: str) -> LegalHold:
        """Lift a legal hold, and return it."""
        store = await self._open(principal, "admin")
        return await store.retention.lift_hold(hold_id, actor=principal.actor)

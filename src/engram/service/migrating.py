"""Giving an organisation the vectors of another embedder, a bounded while at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from engram import limits
from engram.embedding.port import EmbedderIdentity
from engram.errors import InvalidRequestError
from engram.model.access import Principal
from engram.service.reembedding import Reembedding

MigrationStatus = Literal["planned", "running", "done"]
CONFIRM_FROM = 1_000
"""Texts from which a migration has to be confirmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """How far the move to an embedder has come."""

    model: str
    status: MigrationStatus
    remaining: int
    """Texts that have no vector of that embedder yet."""


class Migrating:
    """Moves one organisation to the embedder that the operator chose."""

    def __init__(self, reembedding: Reembedding, *, limit_s: float = limits.MIGRATE_S) -> None:
        self._reembedding = reembedding
        self._limit_s = limit_s

    async def migrate(
        self, principal: Principal, new_model: str, *, dry_run: bool, confirm: bool
    ) -> Migrated:
        """Re-embed for a bounded while; called again it goes on where it was.

        Nothing changes for searches until every text has its new vectors.

        Raises:
            InvalidRequestError: the operator chose another model, or it is not confirmed.
            EmbedderUnavailableError: the model cannot be asked now.
        """
        principal.require("admin")
        (plan,) = await self._reembedding.plan(principal.organization_id)
        _check_model(new_model, plan.target)
        left = plan.work.unmoved
        is_done = not left and plan.stored.deep == plan.target.as_text()
        if dry_run or is_done:
            status: MigrationStatus = "done" if is_done else "planned"
            return Migrated(model=plan.target.name, status=status, remaining=left)
        if left >= CONFIRM_FROM and not confirm:
            message = f"must be true: {left:,} texts would be embedded again"
            raise InvalidRequestError(message, field="confirm")
        return await self._work(principal, plan.target)

    async def _work(self, principal: Principal, target: EmbedderIdentity) -> Migrated:
        try:
            async with asyncio.timeout(self._limit_s):
                await self._reembedding.reembed(principal.organization_id)
        except TimeoutError:
            (plan,) = await self._reembedding.plan(principal.organization_id)
            return Migrated(model=target.name, status="running", remaining=plan.work.unmoved)
        return Migrated(model=target.name, status="done", remaining=0)


def _check_model(new_model: str, target: EmbedderIdentity) -> None:
    if new_model not in (target.name, target.name.rpartition("/")[2]):
        message = (
            f"the operator chose {target.name!r}: another model is chosen with ENGRAM_EMBEDDER"
            " and a restart"
        )
        raise InvalidRequestError(message, field="new_model")

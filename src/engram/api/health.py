"""How an organisation's store fares, and an examination of it."""

from __future__ import annotations

from engram.api.account import EmptyRequest
from engram.api.operation import KeyOperation, Operation, Route
from engram.model.health import Examination, HealthReport

GROUP = "account"

OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="health",
        description="Say how the store fares: work in the background, models, backups and imports.",
        request=EmptyRequest,
        answer=HealthReport,
        run=lambda service, me, _: service.health.report(me),
        group=GROUP,
        scopes=("read",),
        routes=(Route(method="GET", path="/api/v1/health"),),
    ),
    Operation(
        name="examine",
        description="Prove what is stored, as `engram doctor` does, for a bounded time; nothing is"
        " repaired.",
        request=EmptyRequest,
        answer=Examination,
        run=lambda service, me, _: service.health.examine(me),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/examination", body="none"),),
    ),
)

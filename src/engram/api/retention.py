"""Operations on rules of retention and legal holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.api.account import EmptyRequest
from engram.api.operation import Command, KeyOperation, Operation, Route
from engram.model.access import Principal
from engram.model.request import Request
from engram.model.retention import (
    HoldDraft,
    LegalHold,
    RetentionDraft,
    RetentionReport,
    RetentionRule,
    RetentionRun,
)
from engram.model.value import Value

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "retention"


class RuleReference(Request):
    """Names one rule."""

    rule_id: str


class HoldReference(Request):
    """Names one legal hold."""

    hold_id: str


class RulesListed(Value):
    """The rules of retention."""

    rules: tuple[RetentionRule, ...]


class HoldsListed(Value):
    """The legal holds."""

    holds: tuple[LegalHold, ...]


async def list_rules(service: Service, principal: Principal, _: EmptyRequest) -> RulesListed:
    return RulesListed(rules=await service.retention.list_rules(principal))


async def list_holds(service: Service, principal: Principal, _: EmptyRequest) -> HoldsListed:
    return HoldsListed(holds=await service.retention.list_holds(principal))


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="retention_list",
        description="List the rules of retention.",
        request=EmptyRequest,
        answer=RulesListed,
        run=list_rules,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="GET", path="/api/v1/retention"),),
        command=Command(words=("retention", "list")),
    ),
    Operation(
        name="retention_set",
        description="Set how long something is kept since it last changed; what is older is removed"
        " for good in the background.",
        request=RetentionDraft,
        answer=RetentionRule,
        run=lambda service, me, request: service.retention.set_rule(me, request),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/retention"),),
        command=Command(words=("retention", "set"), arguments=("keep",)),
    ),
    Operation(
        name="retention_remove",
        description="Remove a rule of retention.",
        request=RuleReference,
        answer=RetentionRule,
        run=lambda service, me, request: service.retention.remove_rule(me, request.rule_id),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="DELETE", path="/api/v1/retention/{rule_id}"),),
        command=Command(words=("retention", "remove"), arguments=("rule_id",)),
    ),
    Operation(
        name="retention_run",
        description="Apply the rules of retention now, or count what they would remove.",
        request=RetentionRun,
        answer=RetentionReport,
        run=lambda service, me, request: service.retention.run(me, dry_run=request.dry_run),
        group=GROUP,
        scopes=("admin", "delete"),
        routes=(Route(method="POST", path="/api/v1/retention/run"),),
        command=Command(words=("retention", "run")),
    ),
    Operation(
        name="hold_list",
        description="List the legal holds.",
        request=EmptyRequest,
        answer=HoldsListed,
        run=list_holds,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="GET", path="/api/v1/holds"),),
        command=Command(words=("hold", "list")),
    ),
    Operation(
        name="hold_add",
        description="Place a legal hold: what it is on cannot be deleted until it is lifted.",
        request=HoldDraft,
        answer=LegalHold,
        run=lambda service, me, request: service.retention.add_hold(me, request),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/holds", status=201),),
        command=Command(words=("hold", "add"), arguments=("reason",)),
    ),
    Operation(
        name="hold_lift",
        description="Lift a legal hold.",
        request=HoldReference,
        answer=LegalHold,
        run=lambda service, me, request: service.retention.lift_hold(me, request.hold_id),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="DELETE", path="/api/v1/holds/{hold_id}"),),
        command=Command(words=("hold", "lift"), arguments=("hold_id",)),
    ),
)

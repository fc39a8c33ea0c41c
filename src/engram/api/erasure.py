"""Operations that erase for good, with a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.api.operation import KeyOperation, Operation, Route
from engram.model.access import Principal
from engram.model.erasure import (
    ErasureCounts,
    ErasureQuery,
    ErasureReceipt,
    ErasureRequest,
    ErasuresListed,
)
from engram.model.ids import ErasureId
from engram.model.request import Request

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "account"


class ErasureReference(Request):
    """Names one erasure."""

    erasure_id: ErasureId


async def list_erasures(
    service: Service, principal: Principal, request: ErasureQuery
) -> ErasuresListed:
    return ErasuresListed(erasures=await service.erasure.list(principal, limit=request.limit))


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="count_erasure",
        description="Count what an erasure would remove; nothing is changed.",
        request=ErasureRequest,
        answer=ErasureCounts,
        run=lambda service, me, request: service.erasure.count(me, request),
        group=GROUP,
        scopes=("admin", "delete"),
        routes=(Route(method="POST", path="/api/v1/erasures/count"),),
    ),
    Operation(
        name="erase",
        description="Erase a conversation, a project, or everything of a subject, down to the raw"
        " bytes. It is invisible when this returns; the receipt says whether the rest is done.",
        request=ErasureRequest,
        answer=ErasureReceipt,
        run=lambda service, me, request: service.erasure.erase(me, request),
        group=GROUP,
        scopes=("admin", "delete"),
        routes=(Route(method="POST", path="/api/v1/erasures", status=201),),
    ),
    Operation(
        name="get_erasure",
        description="Return the receipt of an erasure.",
        request=ErasureReference,
        answer=ErasureReceipt,
        run=lambda service, me, request: service.erasure.get(me, request.erasure_id),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="GET", path="/api/v1/erasures/{erasure_id:erasure_id}"),),
    ),
    Operation(
        name="list_erasures",
        description="List erasures, newest first; none says what was erased.",
        request=ErasureQuery,
        answer=ErasuresListed,
        run=list_erasures,
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="GET", path="/api/v1/erasures"),),
    ),
)

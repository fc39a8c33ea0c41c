"""Operations that move everything of an organisation out and in."""

from __future__ import annotations

from engram.api.account import GROUP, EmptyRequest
from engram.api.documents import not_json
from engram.api.operation import STREAMED, KeyOperation, Operation, Route
from engram.model.export import ExportRequest, ImportReceipt
from engram.model.value import Value

OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="export",
        description="Return all that is stored as lines of JSON: a header, the data, a manifest.",
        request=ExportRequest,
        answer=Value,
        run=not_json,
        group=GROUP,
        scopes=("read",),
        routes=(Route(method="GET", path="/api/v1/export", sends_bytes=True),),
    ),
    Operation(
        name="import",
        description="Store an export: the body is its bytes, as they come. Ids are kept, and what is"
        " here already is not stored again.",
        request=EmptyRequest,
        answer=ImportReceipt,
        run=not_json,
        group=GROUP,
        scopes=("write",),
        body_bytes_max=STREAMED,
        routes=(Route(method="POST", path="/api/v1/import", body="stream"),),
    ),
)

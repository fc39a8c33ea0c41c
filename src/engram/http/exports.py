"""Exports and imports: sent and received piece by piece."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from engram.api.account import EmptyRequest
from engram.http.documents import Download
from engram.http.routes import Call, Handler
from engram.model.export import ExportRequest, ImportReceipt

MEDIA_TYPES = {"none": "application/x-ndjson", "zstd": "application/zstd"}
ENDINGS = {"none": "ndjson", "zstd": "ndjson.zst"}


async def export(call: Call, request: ExportRequest) -> Response:
    """Send an export."""
    pieces = await call.service.exports.export(call.principal, request)
    name = f"engram-export.{ENDINGS[request.compression]}"
    headers = {
        "content-type": MEDIA_TYPES[request.compression],
        "content-disposition": f'attachment; filename="{name}"',
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    return Download(pieces, status=200, headers=headers)


async def import_(call: Call, _: EmptyRequest) -> ImportReceipt:
    """Store an export whose bytes are the body."""
    return await call.service.exports.import_stream(call.principal, call.stream())


HANDLERS: Mapping[str, Handler] = {"export": export, "import": import_}
"""Handlers of the routes whose request or response body is not JSON."""

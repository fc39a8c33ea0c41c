"""Messages of the handshake era over HTTP, each a request of its own and one JSON answer.

The SDK serves them through a session built and torn down for each message, which costs more than
most tools do; without sessions there is nothing that needs one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import MessageMetadata, ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engram.transport.answers import encode_answer
from engram.transport.bodies.reading import bodies_of
from engram.transport.mcp.messages import UnreadableMessageError, encode_message, parse_message

JSON = "application/json"
VERSIONS = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)

_NO_WAY_BACK = TransportContext(kind="streamable-http", can_send_request=False)


@dataclass(slots=True)
class OneExchange:
    """What the SDK's dispatcher knows of a request that is answered once and by nothing else."""

    request_id: types.RequestId
    message_metadata: MessageMetadata
    transport: TransportContext = _NO_WAY_BACK
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002 the SDK's signature
        opts: CallOptions | None = None,  # noqa: ARG002 the SDK's signature
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Drop it: one JSON answer has no room for notifications."""

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Drop it, as notifications."""


class HandshakeEndpoint:
    """Answers a posted message of the handshake era."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            body = await request.body()
            message = await bodies_of(request.scope).parse(body, partial(parse_message, body))
        except UnreadableMessageError as exc:
            return Response(encode_message(exc.answer), status_code=400, media_type=JSON)
        if not isinstance(message, types.JSONRPCRequest):
            # Nothing outlives a message here, so there is nobody to tell what a notification says.
            return Response(status_code=202)
        return Response(await self._answer(message, request), media_type=JSON)

    async def _answer(self, message: types.JSONRPCRequest, request: Request) -> bytes:
        version = request.headers.get("mcp-protocol-version", types.DEFAULT_NEGOTIATED_VERSION)
        try:
            result = await serve_one(
                self._server,
                OneExchange(message.id, ServerMessageMetadata(request_context=request)),
                message.method,
                message.params,
                connection=Connection.from_envelope(version, None, None),
                lifespan_state={},
            )
        except Exception as exc:  # noqa: BLE001 the SDK logs what it does not know, and masks it
            error = modern_error_data(exc).model_dump(mode="json", exclude_none=True)
            return await _rpc_json(message.id, error=error)
        return await _rpc_json(message.id, result=result)


async def _rpc_json(request_id: types.RequestId, **outcome: dict[str, Any]) -> bytes:
    return await encode_answer({"jsonrpc": "2.0", "id": request_id, **outcome})

"""MCP over HTTP: `/mcp` without sessions in both eras of the protocol, and legacy `/sse`.

Who calls is settled before: the application's middleware puts the principal into the request's
state, and checks Host and Origin.

Messages of the handshake era are each a request of its own with one JSON answer. The SDK would serve
them through a session built and torn down for each message, which costs more than most tools do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.message import MessageMetadata, ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engram import limits
from engram.api.encoding import encode_answer, error_details
from engram.bodies.json_text import NotJsonError, prepare
from engram.bodies.receiving import bodies_of, replay_body
from engram.bodies.siblings import NO_SIBLINGS, HandedRequest, Siblings, is_handed_on
from engram.errors import LimitExceededError
from engram.mcp.clients import ClientLog
from engram.mcp.messages import (
    JSON,
    UnreadableMessageError,
    error_response,
    parse_message,
    with_texts,
)
from engram.mcp.server import Caller, Identify, build_server, find_caller
from engram.mcp.sse import SseMessages, SseStreams, messages_path
from engram.mcp.tools import call_bytes_max
from engram.model.access import Principal, Toolset
from engram.model.value import Value
from engram.service import Service

RawHeaders = list[tuple[bytes, bytes]]
ANYTHING = "*/*"
HANDSHAKE_VERSIONS = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)
LONG_ANSWERS = frozenset({"tools/call", "resources/read"})
"""Methods whose answers may be long."""

_NO_WAY_BACK = TransportContext(kind="streamable-http", can_send_request=False)


class McpHttp(Value, kw_only=False):
    """The routes, and the context that must be open while they are served."""

    routes: Sequence[BaseRoute]
    run: Callable[[], AbstractAsyncContextManager[None]]


def build_mcp_http(
    service: Service, *, toolsets: tuple[Toolset, ...], siblings: Siblings = NO_SIBLINGS
) -> McpHttp:
    """Return the MCP routes; `toolsets` are shown where a connection does not ask for others."""
    server = build_server(service, _identify_by_request(toolsets))
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=limits.BODY_BYTES_MAX
    )
    clients = ClientLog()
    endpoint = StreamableEndpoint(
        CheckedMessages(HandshakeEndpoint(server, clients)),
        CheckedMessages(LaterEndpoint(server, manager.handle_request, clients)),
    )
    sse = SseServerTransport(
        messages_path(siblings.name), max_request_body_size=limits.BODY_BYTES_MAX
    )
    messages = HandedOn(CheckedMessages(SseMessages(sse)), siblings)
    routes = [
        # Without sessions there is no stream to GET and nothing to DELETE: both are refused at once.
        Route("/mcp", endpoint, methods=["POST"]),
        Route("/sse", SseStreams(service, sse, toolsets=toolsets), methods=["GET"]),
        Route(messages_path(""), messages, methods=["POST"]),
        Route(messages_path("{process}"), messages, methods=["POST"]),
    ]
    return McpHttp(routes, manager.run)


class StreamableEndpoint:
    """Routes a message to the endpoint of its protocol era, by its headers."""

    def __init__(self, handshake_era: ASGIApp, later_era: ASGIApp) -> None:
        self._handshake_era = handshake_era
        self._later_era = later_era

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(raw=tidy_headers(scope["headers"]))
        refusal = _refusal(headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        version = headers.get("mcp-protocol-version")
        is_handshake_era = version is None or version in HANDSHAKE_VERSIONS
        app = self._handshake_era if is_handshake_era else self._later_era
        await app({**scope, "headers": headers.raw}, receive, send)


def tidy_headers(headers: RawHeaders) -> RawHeaders:
    """Return the headers as the protocol's comparisons expect them.

    RFC 9110 does not count whitespace around a value as part of it, but not every HTTP parser
    strips it; and without an Accept header anything is accepted.
    """
    tidy = [(name, value.strip() if name.startswith(b"mcp-") else value) for name, value in headers]
    if not any(name == b"accept" for name, _ in headers):
        tidy.append((b"accept", ANYTHING.encode()))
    return tidy


def _refusal(headers: Headers) -> Response | None:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON:
        return _refuse(415, f"Content-Type must be {JSON}", code="unsupported_media_type")
    accepted = headers["accept"].lower()
    if not any(kind in accepted for kind in (JSON, "application/*", ANYTHING)):
        return _refuse(406, f"Accept must include {JSON}", code="not_acceptable")
    return None


def _refuse(status: int, message: str, *, code: str) -> Response:
    error = UnreadableMessageError(types.INVALID_REQUEST, message, data={"code": code})
    return error_response(error, status=status)


def _identify_by_request(toolsets: tuple[Toolset, ...]) -> Identify:
    def identify(request: Request) -> Caller:
        asked = request.query_params
        return find_caller(request.state.principal, asked=asked, setting=toolsets)

    return identify


class CheckedMessages:
    """Bounds a posted message by what its key may call, and checks its shape before it is parsed.

    The message is passed on with short marks in place of its long texts; handlers restore them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal = scope["state"]["principal"]
        bytes_max = call_bytes_max(principal.scopes, principal.toolsets)
        bodies = bodies_of(scope)
        async with bodies.receive(scope, receive, bytes_max=bytes_max) as body:
            try:
                text = await bodies.parse(body, partial(prepare, body))
            except (NotJsonError, LimitExceededError) as exc:
                await error_response(_unparsed(exc))(scope, receive, send)
                return
            again = replay_body(bytes(text.data), receive)
            await self._app(with_texts(scope, text.texts), again, send)


class HandedOn:
    """Hands a posted message on to the process that has its session."""

    def __init__(self, app: ASGIApp, siblings: Siblings) -> None:
        self._app = app
        self._siblings = siblings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        process = scope["path_params"].get("process", self._siblings.name)
        if process == self._siblings.name or is_handed_on(scope):
            await self._app(scope, receive, send)
            return
        principal: Principal = scope["state"]["principal"]
        bytes_max = call_bytes_max(principal.scopes, principal.toolsets)
        async with bodies_of(scope).receive(scope, receive, bytes_max=bytes_max) as body:
            request = HandedRequest.of(scope, bytes(body))
            answer = await self._siblings.ask(process, request)
            if answer is None:
                # It has ended, and its sessions with it; this one says that it knows of none.
                await self._app(scope, replay_body(request.body, receive), send)
            else:
                await answer.send(send)


def _unparsed(error: NotJsonError | LimitExceededError) -> UnreadableMessageError:
    is_too_large = isinstance(error, LimitExceededError)
    data = {"code": error.code, **error_details(error)} if is_too_large else None
    return UnreadableMessageError(types.PARSE_ERROR, f"Parse error: {error}", data=data)


@dataclass(slots=True)
class OneExchange:
    """The SDK's dispatch context of a request that gets one answer and nothing else."""

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

    def __init__(self, server: Server[Any], clients: ClientLog) -> None:
        self._server = server
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            body = await request.body()
            message = await bodies_of(request.scope).parse(body, partial(parse_message, body))
        except UnreadableMessageError as exc:
            return error_response(exc)
        if not isinstance(message, types.JSONRPCRequest):
            # There are no sessions, so a notification has no receiver.
            return Response(status_code=202)
        if message.method == "initialize":
            self._clients.note(message.params)
        version = request.headers.get("mcp-protocol-version", types.DEFAULT_NEGOTIATED_VERSION)
        connection = Connection.from_envelope(version, None, None)
        body, _ = await _serve(self._server, message, request, connection)
        return Response(body, media_type=JSON)


class LaterEndpoint:
    """Answers a call of the later era; whatever is not a valid call is left to the SDK.

    The SDK would encode the answer on the event loop, and a page of messages may have megabytes.
    """

    def __init__(self, server: Server[Any], sdk: ASGIApp, clients: ClientLog) -> None:
        self._server = server
        self._sdk = sdk
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        read = partial(_read_call, body, request.headers)
        call = await bodies_of(scope).parse(body, read)
        if call is None:
            await self._sdk(scope, replay_body(body, receive), send)
            return
        message, connection = call
        self._clients.note(message.params)
        answer, error_code = await _serve(self._server, message, request, connection)
        status = 200 if error_code is None else ERROR_CODE_HTTP_STATUS.get(error_code, 200)
        await Response(answer, status_code=status, media_type=JSON)(scope, receive, send)


def _read_call(body: bytes, headers: Headers) -> tuple[types.JSONRPCRequest, Connection] | None:
    """Return a call of a tool or a resource, None for what the SDK has to answer or refuse."""
    try:
        decoded = json.loads(body)
        message = types.JSONRPCRequest.model_validate(decoded)
    except (ValueError, RecursionError):
        return None
    if message.method not in LONG_ANSWERS or find_duplicated_routing_header(headers.items()):
        return None
    route = classify_inbound_request(decoded, headers=dict(headers))
    if not isinstance(route, InboundModernRoute):
        return None
    envelope = route.protocol_version, route.client_info, route.client_capabilities
    return message, Connection.from_envelope(*envelope)


async def _serve(
    server: Server[Any], message: types.JSONRPCRequest, request: Request, connection: Connection
) -> tuple[bytes, int | None]:
    """Return the JSON of the answer to a request, and the code of the error if it is one."""
    envelope = {"jsonrpc": "2.0", "id": message.id}
    try:
        result = await serve_one(
            server,
            OneExchange(message.id, ServerMessageMetadata(request_context=request)),
            message.method,
            message.params,
            connection=connection,
            lifespan_state={},
        )
    except Exception as exc:  # noqa: BLE001 the SDK logs what it does not know, and masks it
        error = modern_error_data(exc)
        shown = error.model_dump(mode="json", exclude_none=True)
        return await encode_answer({**envelope, "error": shown}), error.code
    return await encode_answer({**envelope, "result": result}), None

"""MCP over HTTP: `/mcp` without sessions in both eras of the protocol, and legacy `/sse`.

Who calls is settled before: the application's middleware puts the principal into the request's
state, and checks Host and Origin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import mcp_types as types
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engram import limits
from engram.model.toolsets import Toolset
from engram.service import Service
from engram.transport.mcp.checking import CheckedMessages
from engram.transport.mcp.handshake import JSON, VERSIONS, HandshakeEndpoint
from engram.transport.mcp.server import Caller, Identify, build_server, find_caller
from engram.transport.mcp.sse import MESSAGES_PATH, SseMessages, SseStreams

RawHeaders = list[tuple[bytes, bytes]]
ANYTHING = "*/*"


@dataclass(frozen=True, slots=True)
class McpHttp:
    """What an application mounts: the routes, and what must run while it serves them."""

    routes: Sequence[BaseRoute]
    run: Callable[[], AbstractAsyncContextManager[None]]


def build_mcp_http(service: Service, *, toolsets: tuple[Toolset, ...]) -> McpHttp:
    """Return the MCP routes; `toolsets` are shown where a connection does not ask for others."""
    server = build_server(service, _identify_by_request(toolsets))
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=limits.BODY_BYTES_MAX
    )
    endpoint = StreamableEndpoint(
        CheckedMessages(HandshakeEndpoint(server)), CheckedMessages(manager.handle_request)
    )
    sse = SseServerTransport(MESSAGES_PATH, max_request_body_size=limits.BODY_BYTES_MAX)
    routes = [
        # Without sessions there is no stream to GET and nothing to DELETE: both are refused at once.
        Route("/mcp", endpoint, methods=["POST"]),
        Route("/sse", SseStreams(service, sse, toolsets=toolsets), methods=["GET"]),
        Route(MESSAGES_PATH, CheckedMessages(SseMessages(sse)), methods=["POST"]),
    ]
    return McpHttp(routes, manager.run)


class StreamableEndpoint:
    """Tells the eras of the protocol apart, as far as that can be told from the headers."""

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
        is_handshake_era = version is None or version in VERSIONS
        app = self._handshake_era if is_handshake_era else self._later_era
        await app({**scope, "headers": headers.raw}, receive, send)


def tidy_headers(headers: RawHeaders) -> RawHeaders:
    """Return the headers as the protocol's comparisons expect them.

    RFC 9110 does not count whitespace around a value as part of it, but not every HTTP parser
    takes it away; and who does not say what they accept accepts anything.
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
    error = types.ErrorData(code=types.INVALID_REQUEST, message=message, data={"code": code})
    answer = types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
    body = answer.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(body, status_code=status, media_type=JSON)


def _identify_by_request(toolsets: tuple[Toolset, ...]) -> Identify:
    def identify(request: Request) -> Caller:
        asked = request.query_params.get("toolsets")
        return find_caller(request.state.principal, asked=asked, setting=toolsets)

    return identify

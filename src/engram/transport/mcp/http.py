"""MCP over HTTP: `/mcp` without sessions in both eras of the protocol, and legacy `/sse`.

Who calls is settled before: the application's middleware puts the principal into the request's
state, checks Host and Origin, and bounds the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engram.service import Service
from engram.transport.mcp.server import Caller, Identify, build_server
from engram.transport.mcp.sse import MESSAGES_PATH, SseMessages, SseStreams
from engram.transport.mcp.tools import parse_toolsets

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class McpHttp:
    """What an application mounts: the routes, and what must run while it serves them."""

    routes: Sequence[BaseRoute]
    run: Callable[[], AbstractAsyncContextManager[None]]


def build_mcp_http(service: Service, *, toolsets: tuple[str, ...], body_bytes_max: int) -> McpHttp:
    """Return the MCP routes; `toolsets` are shown where a connection does not ask for others."""
    identify = _identify_by_request(toolsets)
    manager = StreamableHTTPSessionManager(
        build_server(service, identify),
        json_response=True,
        stateless=True,
        max_request_body_size=body_bytes_max,
    )
    sse = SseServerTransport(MESSAGES_PATH, max_request_body_size=body_bytes_max)
    routes = [
        # Without sessions there is no stream to GET and nothing to DELETE: both are refused at once.
        Route("/mcp", StreamableEndpoint(manager.handle_request), methods=["POST"]),
        Route("/sse", SseStreams(service, sse, toolsets=toolsets), methods=["GET"]),
        Route(MESSAGES_PATH, SseMessages(sse), methods=["POST"]),
    ]
    return McpHttp(routes, manager.run)


class StreamableEndpoint:
    """Makes up for HTTP parsers that leave whitespace around the values of headers.

    RFC 9110 does not count it as part of a value, but the protocol compares values with the body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "headers": strip_mcp_headers(scope["headers"])}, receive, send)


def strip_mcp_headers(headers: RawHeaders) -> RawHeaders:
    """Return the headers without whitespace around the values of `Mcp-*` ones."""
    return [(name, value.strip() if name.startswith(b"mcp-") else value) for name, value in headers]


def _identify_by_request(toolsets: tuple[str, ...]) -> Identify:
    def identify(request: Request) -> Caller:
        asked = request.query_params.get("toolsets")
        shown = toolsets if asked is None else parse_toolsets(asked)
        return Caller(request.state.principal, shown)

    return identify

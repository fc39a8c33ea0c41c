"""The HTTP+SSE transport of 2024, for clients that know no other.

Every message posted to a session is authenticated anew, and only the credential that opened the
session may post to it. Sessions live in the process that opened them.
"""

from __future__ import annotations

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from engram import limits
from engram.model.toolsets import Toolset
from engram.service import Service
from engram.transport.mcp.server import Caller, build_server, find_caller

MESSAGES_PATH = "/messages/"
"""Where clients post; the first event of a stream tells them."""


class SseStreams:
    """Serves `/sse`: one connection, one session."""

    def __init__(
        self, service: Service, transport: SseServerTransport, *, toolsets: tuple[Toolset, ...]
    ) -> None:
        self._service = service
        self._transport = transport
        self._toolsets = toolsets
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._open >= limits.SSE_SESSIONS_MAX:
            refusal = PlainTextResponse("too many open SSE sessions; use /mcp", status_code=503)
            await refusal(scope, receive, send)
            return
        self._open += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._open -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The messages come in other requests, so what this one asks for is remembered here.
        asked = Request(scope).query_params.get("toolsets")

        def identify(request: Request) -> Caller:
            return find_caller(request.state.principal, asked=asked, setting=self._toolsets)

        server = build_server(self._service, identify)
        async with self._transport.connect_sse(with_owner(scope), receive, send) as streams:
            await server.run(*streams, server.create_initialization_options())


class SseMessages:
    """Takes the messages of every session."""

    def __init__(self, transport: SseServerTransport) -> None:
        self._transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._transport.handle_post_message(with_owner(scope), receive, send)


def with_owner(scope: Scope) -> Scope:
    """Name the credential to the SDK in its own terms; it compares it with the session's."""
    actor = scope["state"]["principal"].actor
    owner = AuthenticatedUser(AccessToken(token="", client_id=actor, scopes=[]))
    return {**scope, "user": owner}

"""The HTTP+SSE transport of 2024, for clients that know no other.

Every message posted to a session is authenticated anew, and only the credential that opened the
session may post to it. A session ends when that credential is no longer valid. Sessions live in the
process that opened them, which the path of their messages names.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractAsyncContextManager, suppress

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from engram import limits
from engram.bodies.receiving import replay_body
from engram.errors import StorageError, TooManySessionsError, UnavailableError
from engram.mcp.messages import (
    UnreadableMessageError,
    check_message,
    error_response,
    texts_of,
    with_finish,
)
from engram.mcp.server import Caller, build_server, find_caller
from engram.model.access import Principal, Toolset
from engram.service import Service

ACCEPTED = 202


def messages_path(process: str) -> str:
    """Return where clients of a process post, or of the only one; the first event of a stream announces it."""
    return f"/messages/{process}/" if process else "/messages/"


class SseStreams:
    """Serves `/sse`: one connection, one session, which ends with the key that opened it."""

    def __init__(
        self,
        service: Service,
        transport: SseServerTransport,
        *,
        toolsets: tuple[Toolset, ...],
        check_s: float = limits.SSE_CHECK_S,
    ) -> None:
        self._service = service
        self._transport = transport
        self._toolsets = toolsets
        self._check_s = check_s
        self._open = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal = scope["state"]["principal"]
        self._refuse_too_many(principal)
        owners = ("", principal.organization_id, principal.actor)
        self._open.update(owners)
        try:
            await self._serve_while_valid(scope, receive, send)
        finally:
            self._open.subtract(owners)
            self._open += Counter[str]()

    def _refuse_too_many(self, principal: Principal) -> None:
        if self._open[""] >= limits.SSE_SESSIONS_MAX:
            raise UnavailableError("too many SSE sessions are open; use /mcp")
        if self._open[principal.actor] >= limits.SSE_SESSIONS_PER_KEY_MAX:
            raise TooManySessionsError(owner="key", limit=limits.SSE_SESSIONS_PER_KEY_MAX)
        if self._open[principal.organization_id] >= limits.SSE_SESSIONS_PER_ORGANIZATION_MAX:
            limit = limits.SSE_SESSIONS_PER_ORGANIZATION_MAX
            raise TooManySessionsError(owner="organisation", limit=limit)

    async def _serve_while_valid(self, scope: Scope, receive: Receive, send: Send) -> None:
        secret, answer = _secret(scope), _Answer(send)

        async def receive_while_valid() -> Message:
            # A client whose key has ended is treated as one that left: the SDK closes what it opened.
            message: Message = {"type": "http.disconnect"}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_key, secret, tasks.cancel_scope)
                message = await receive()
                tasks.cancel_scope.cancel()
            return message

        await self._serve(scope, receive_while_valid, answer.send)
        await answer.end()

    async def _watch_key(self, secret: str, waiting: anyio.CancelScope) -> None:
        """Cancel what waits once the key is revoked, expired or gone."""
        while True:
            await anyio.sleep(self._check_s)
            # While the store is unreachable the key counts as valid; messages are refused anyway.
            with suppress(StorageError):
                if not await self._service.access.is_valid(secret):
                    waiting.cancel()
                    return

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The messages come in other requests, so what this one asks for is remembered here.
        asked = Request(scope).query_params

        def identify(request: Request) -> Caller:
            return find_caller(request.state.principal, asked=asked, setting=self._toolsets)

        def gate(principal: Principal) -> AbstractAsyncContextManager[None]:
            return self._service.turns.turn(principal.organization_id)

        server = build_server(self._service, identify, gate=gate)
        async with self._transport.connect_sse(with_owner(scope), receive, send) as streams:
            await server.run(*streams, server.create_initialization_options())


class _Answer:
    """The stream of a session, which can be ended in the middle."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_open = False

    async def send(self, message: Message) -> None:
        self._is_open = message["type"] == "http.response.start" or message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        """Complete the answer if it was begun and is not complete."""
        if self._is_open:
            await self.send({"type": "http.response.body", "body": b""})


def _secret(scope: Scope) -> str:
    return Request(scope).headers.get("authorization", "").partition(" ")[2].strip()


class SseMessages:
    """Takes the messages of every session."""

    def __init__(self, transport: SseServerTransport) -> None:
        self._transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        try:
            # The SDK would log what it cannot parse with its content, and end no request with it.
            check_message(body)
        except UnreadableMessageError as exc:
            await error_response(exc)(scope, receive, send)
            return
        await self._hand_over(scope, replay_body(body, receive), send)

    async def _hand_over(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_taken = False

        async def send_on(message: Message) -> None:
            nonlocal is_taken
            is_taken = is_taken or message.get("status") == ACCEPTED
            await send(message)

        own_scope, finished = with_finish(with_owner(scope))
        await self._transport.handle_post_message(own_scope, receive, send_on)
        if is_taken and texts_of(Request(own_scope)):
            # The answer comes over the stream. Until then the call needs the memory reserved for it.
            with anyio.move_on_after(limits.SSE_CALL_S):
                await finished.wait()


def with_owner(scope: Scope) -> Scope:
    """Name the credential to the SDK in its own terms; it compares it with the session's."""
    actor = scope["state"]["principal"].actor
    owner = AuthenticatedUser(AccessToken(token="", client_id=actor, scopes=[]))
    return {**scope, "user": owner}

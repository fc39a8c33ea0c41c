"""Lets a request work when it is its organisation's turn; waiting for the client takes none."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.service import Service
from engram.service.turns import Turn
from engram.yielding import serving

STREAMS = frozenset({"/sse"})
"""Paths whose requests last as long as their clients; their calls take a turn each."""


class FairTurns:
    """Takes a turn for every request with a principal; see `engram.service.turns`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope["state"].get("principal")
        if principal is None or scope["path"] in STREAMS:
            await self._app(scope, receive, send)
            return
        service: Service = scope["state"]["service"]
        turn = await service.turns.enter(principal.organization_id)
        try:
            request = _Request(turn, receive, send)
            with serving(principal.organization_id):
                await self._app(scope, request.receive, request.send)
        finally:
            turn.leave()


class _Request:
    """A request that leaves its turn to others while its client sends or reads."""

    def __init__(self, turn: Turn, receive: Receive, send: Send) -> None:
        self._turn = turn
        self._receive = receive
        self._send = send
        self._has_body = False

    async def receive(self) -> Message:
        if self._has_body:
            # Whoever still listens waits for the client to leave, beside the work.
            return await self._receive()
        self._turn.pause()
        message = await self._receive()
        await self._turn.pace(received=len(message.get("body", b"")))
        await self._turn.resume()
        self._has_body = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        if message.get("more_body", False):
            self._turn.pause()
            await self._send(message)
            await self._turn.resume()
        else:
            self._turn.leave()
            await self._send(message)

"""Bounds a posted message by what its key may call, and checks its shape before the SDK parses it."""

from __future__ import annotations

from functools import partial

import mcp_types as types
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.errors import LimitExceededError
from engram.model.access import Principal
from engram.transport.bodies.reading import bodies_of
from engram.transport.bodies.texts import JsonText, NotJsonError, prepare
from engram.transport.facts import error_facts
from engram.transport.mcp.exchange import with_texts
from engram.transport.mcp.tools.table import call_bytes_max

JSON = "application/json"


class CheckedMessages:
    """Hands a message on with short marks in place of its long texts; handlers restore them."""

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
                await _refusal(exc)(scope, receive, send)
                return
            await self._app(with_texts(scope, text.texts), _replayed(text, receive), send)


def _replayed(text: JsonText, receive: Receive) -> Receive:
    """Return what gives the message as a body, and then whatever else comes."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": bytes(text.data), "more_body": False}

    return receive_again


def _refusal(error: NotJsonError | LimitExceededError) -> Response:
    """Return the answer to a message that no parser should see."""
    problem = types.ErrorData(code=types.PARSE_ERROR, message=f"Parse error: {error}")
    if isinstance(error, LimitExceededError):
        problem.data = {"code": error.code, **error_facts(error)}
    answer = types.JSONRPCError(jsonrpc="2.0", id=None, error=problem)
    body = answer.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(body, status_code=400, media_type=JSON)

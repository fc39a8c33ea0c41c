"""Headers of requests and responses, read and added without building objects for them."""

from __future__ import annotations

import itertools
import logging
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.clock import random_text

REQUEST_ID = b"x-request-id"
ANSWER_HEADERS = "engram.headers"
"""Key in a request's scope of the headers that are added to its response."""

logger = logging.getLogger("engram.access")

PREFIX_LENGTH = 12


def header(scope: Scope, name: bytes) -> str | None:
    """Return a request's header; None when it is missing or given more than once."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def has_header(scope: Scope, name: bytes) -> bool:
    """Return True if a request has the header, even more than once."""
    return any(key == name for key, _ in scope["headers"])


def bearer_token(scope: Scope) -> str | None:
    """Return the token of `Authorization: Bearer …`, None when there is none."""
    scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def request_id(scope: Scope) -> str:
    """Return the id of this request, which its response carries."""
    return next(value.decode() for name, value in scope[ANSWER_HEADERS] if name == REQUEST_ID)


def add_header(scope: Scope, name: str, value: str) -> None:
    """Add a header to the response to this request."""
    scope[ANSWER_HEADERS].append((name.lower().encode("latin-1"), value.encode("latin-1")))


class AnswerHeaders:
    """Numbers requests after a random prefix: unique among processes, and cheap."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._prefix = f"req_{random_text(PREFIX_LENGTH)}_".encode()
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = self._prefix + b"%x" % next(self._numbers)
        added = scope[ANSWER_HEADERS] = [(REQUEST_ID, request_id)]
        started = perf_counter()

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *added]}
                _log(scope, message["status"], request_id, perf_counter() - started)
            await send(message)

        await self._app(scope, receive, send_on)


def _log(scope: Scope, status: int, request_id: bytes, seconds: float) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        # Neither headers nor the query: they hold credentials and what somebody searches for.
        logger.debug(
            "%s %s %d in %.1f ms (%s)",
            scope["method"],
            scope["path"],
            status,
            seconds * 1000,
            request_id.decode(),
        )

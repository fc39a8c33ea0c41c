"""Gives every request an id and adds the headers that collected on the way to its answer."""

from __future__ import annotations

import itertools
import logging
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.clock import random_text
from engram.transport.rest.headers import ANSWER_HEADERS, REQUEST_ID

logger = logging.getLogger("engram.access")

PREFIX_LENGTH = 12


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

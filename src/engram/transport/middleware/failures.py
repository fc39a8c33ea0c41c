"""The one place where a failure becomes an answer: known ones a problem, unknown ones a plain 500."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.errors import (
    AccessDeniedError,
    EngramError,
    ServerBusyError,
    StoreUnavailableError,
)
from engram.service import Service
from engram.transport.rest.headers import request_id
from engram.transport.rest.problems import (
    INTERNAL_ERROR,
    HttpError,
    Problem,
    problem_of,
    routing_problem,
    send_problem,
)

logger = logging.getLogger(__name__)

SERVER_FAULT = 500


class Failures:
    """Answers with a problem unless an answer has begun; then only cutting it off is honest."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_on(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except ClientDisconnect:
            logger.debug("the client went away before its request was complete")
        except Exception as exc:
            _audit(exc, scope)
            problem = _problem_of(exc, scope)
            _log(exc, problem, scope)
            if started:
                raise
            await send_problem(problem, send)


def _problem_of(exc: Exception, scope: Scope) -> Problem:
    match exc:
        case EngramError() | HttpError():
            return problem_of(exc)
        case HTTPException():
            return routing_problem(exc, scope)
        case _:
            return INTERNAL_ERROR


def _audit(exc: Exception, scope: Scope) -> None:
    """Let the audit tell of what a key was not allowed to do."""
    if isinstance(exc, AccessDeniedError) and "principal" in scope["state"]:
        service: Service = scope["state"]["service"]
        service.access.note_denied(scope["state"]["principal"], exc)


def _log(exc: Exception, problem: Problem, scope: Scope) -> None:
    # The path, never the query: a query may hold what somebody searches for.
    if problem.status >= SERVER_FAULT:
        logger.error(
            "%s %s failed with %s (%s)",
            scope["method"],
            scope["path"],
            problem.code,
            request_id(scope),
            # While a database is away or the server is busy, no failure says more than this.
            exc_info=None if isinstance(exc, (StoreUnavailableError, ServerBusyError)) else exc,
        )

"""The one place where a failure becomes an answer: known ones a problem, unknown ones a plain 500."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram import limits
from engram.errors import (
    AccessDeniedError,
    EngramError,
    ServerBusyError,
    StoreUnavailableError,
)
from engram.service import Service
from engram.service.turns import Turns
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

    def __init__(self, app: ASGIApp, turns: Turns) -> None:
        self._app = app
        self._pace = RefusalPace(turns)

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
            await self._pace.wait(scope)
            await send_problem(problem, send)


class RefusalPace:
    """Answers late to addresses that are refused often, while others need the server."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._due: OrderedDict[str, float] = OrderedDict()
        """When the refusals of an address would be answered if each waited for the one before."""

    async def wait(self, scope: Scope) -> None:
        """Wait until the request may be refused."""
        principal = scope.get("state", {}).get("principal")
        if not self._turns.has_others(principal and principal.organization_id):
            return
        delay_s = self._delay_s(scope["client"][0] if scope.get("client") else "")
        if delay_s > 0:
            await asyncio.sleep(delay_s)

    def _delay_s(self, address: str) -> float:
        now = asyncio.get_running_loop().time()
        interval_s = 1 / limits.REFUSALS_PER_S_SHARED
        # A second's worth of refusals is answered at once.
        due = max(self._due.pop(address, 0.0), now - 1.0) + interval_s
        self._due[address] = min(due, now + limits.REFUSAL_DELAY_S_MAX)
        if len(self._due) > limits.REFUSED_ADDRESSES_MAX:
            self._due.popitem(last=False)
        return self._due[address] - now


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

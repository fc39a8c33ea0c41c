"""Failures as RFC 9457 problems: one table from error to status, one stable code for each."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Annotated

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram import errors, limits
from engram.api.encoding import error_details
from engram.http.headers import request_id
from engram.model.value import INTERNAL, Value, computed, plain
from engram.service import Service
from engram.service.access.admission import Turns
from engram.service.access.rate import TokenBuckets

MEDIA_TYPE = "application/problem+json"
SHOW_PROBLEM = "show_problem"
"""Key in a request's state of what sends a problem, where that is not JSON."""

RETRY_AFTER_S = 1
"""Default for `Retry-After`; the store is rarely busy for longer."""

STATUS: Mapping[type[errors.EngramError], int] = {
    errors.InvalidRequestError: 400,
    errors.RequestTooLargeError: 413,
    errors.UnauthenticatedError: 401,
    errors.AccessDeniedError: 403,
    errors.QuotaExceededError: 403,
    errors.NotFoundError: 404,
    errors.ConflictError: 409,
    errors.RateLimitedError: 429,
    errors.TooManyAtOnceError: 429,
    errors.TooManySessionsError: 429,
    errors.UnavailableError: 503,
    errors.StoreBusyError: 503,
    errors.StoreFullError: 507,
    errors.StoreMovedError: 409,
    errors.EngramError: 500,
}
"""The status of an error is that of the nearest of its classes here."""


_PHRASES = {413: "Content Too Large", 416: "Range Not Satisfiable"}
"""Reason phrases of RFC 9110 that Python has from 3.13 on."""

logger = logging.getLogger(__name__)

SERVER_FAULT = 500


class Problem(Value, omit_defaults=True):
    """A failure as a client reads it; `code` never changes its meaning."""

    title: str
    status: int
    detail: str
    code: str
    field: str | None = None
    limit: int | None = None
    actual: int | None = None
    unit: str | None = None
    required: str | None = None
    toolset: str | None = None
    resource: str | None = None
    used: int | None = None
    needed: int | None = None
    offset_bytes: int | None = None
    headers: Annotated[Mapping[str, str], INTERNAL] = {}

    @computed
    def type(self) -> str:
        """Return the URN of the code."""
        return f"urn:engram:problem:{self.code}"


ShowProblem = Callable[[Problem, Send], Awaitable[None]]


class HttpError(Exception):
    """A request refused by HTTP's own rules, before any use case."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers


INTERNAL_ERROR = Problem(
    status=500,
    code="internal_error",
    title="Internal Server Error",
    detail="Engram failed; its log says why.",
)


def problem_of(error: errors.EngramError | HttpError) -> Problem:
    """Return the problem that describes `error`."""
    if isinstance(error, HttpError):
        return _plain(error.status, error.code, error.detail, error.headers)
    kind = next(kind for kind in type(error).__mro__ if kind in STATUS)
    return Problem(
        status=STATUS[kind],
        code=error.code,
        title=(type(error).__doc__ or "").strip(),
        detail=error.message,
        headers=_headers(error, STATUS[kind]),
        **error_details(error),
    )


def routing_problem(exc: HTTPException, scope: Scope) -> Problem:
    """Return the problem of a request that matches no route."""
    if exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_allowed_methods(scope))
        detail = f"{scope['method']} is not possible here: use {allowed}"
        return _plain(405, "method_not_allowed", detail, {"Allow": allowed})
    if exc.status_code == HTTPStatus.NOT_FOUND:
        return _plain(404, "not_found", f"there is nothing at {scope['path']!r}")
    return _plain(exc.status_code, "invalid_request", exc.detail)


def phrase_of(status: int) -> str:
    """Return the phrase of a status, the same on every Python."""
    return _PHRASES.get(status) or HTTPStatus(status).phrase


async def send_problem(problem: Problem, send: Send) -> None:
    """Send a problem as the whole answer."""
    body = orjson.dumps(plain(problem))
    headers = {
        "content-type": MEDIA_TYPE,
        "content-length": str(len(body)),
        **problem.headers,
    }
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _plain(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
) -> Problem:
    title = phrase_of(status)
    return Problem(status=status, code=code, title=title, detail=detail, headers=headers or {})


def _headers(error: errors.EngramError, status: int) -> dict[str, str]:
    match error:
        case errors.UnauthenticatedError():
            return {"WWW-Authenticate": "Bearer"}
        case errors.RateLimitedError():
            wait_s = str(max(1, math.ceil(error.retry_after_s)))
            return {
                "Retry-After": wait_s,
                "RateLimit-Limit": str(error.limit),
                "RateLimit-Remaining": "0",
                "RateLimit-Reset": wait_s,
            }
        case errors.TooManyAtOnceError() | errors.TooManySessionsError():
            return {"Retry-After": str(RETRY_AFTER_S)}
        case _ if status == HTTPStatus.SERVICE_UNAVAILABLE:
            return {"Retry-After": str(RETRY_AFTER_S)}
        case _:
            return {}


def _allowed_methods(scope: Scope) -> list[str]:
    """Return the methods of every route at this path; the framework names those of the first.

    A path that is a route's own is not also the id in another's.
    """
    router: Router = scope["router"]
    found = [route for route in router.routes if route.matches(scope)[0] is not Match.NONE]
    own = [route for route in found if getattr(route, "path", None) == scope["path"]]
    methods = set[str]()
    for route in own or found:
        methods |= getattr(route, "methods", None) or set[str]()
    return sorted(methods)


class Failures:
    """Answers with a problem unless the response has begun; then the connection is cut off."""

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
            errors.release_frames(exc)  # among them the texts of a large request
            if started:
                raise
            await self._pace.wait(scope)
            show: ShowProblem | None = scope.get("state", {}).get(SHOW_PROBLEM)
            await (show or send_problem)(problem, send)


class RefusalPace:
    """Delays responses to addresses that are refused often, while others need the server."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        rate = limits.REFUSALS_PER_S_SHARED
        # A second's worth of refusals is answered at once.
        self._buckets = TokenBuckets(
            rate,
            rate,
            debt_max=rate * limits.REFUSAL_DELAY_S_MAX,
            keys_max=limits.REFUSED_ADDRESSES_MAX,
        )

    async def wait(self, scope: Scope) -> None:
        """Wait until the request may be refused."""
        principal = scope.get("state", {}).get("principal")
        if not self._turns.has_others(principal and principal.organization_id):
            return
        now = asyncio.get_running_loop().time()
        bucket = self._buckets.use(scope["client"][0] if scope.get("client") else "")
        bucket.take(now)
        if delay_s := bucket.wait_s(now, wanted=0):
            await asyncio.sleep(delay_s)


def _problem_of(exc: Exception, scope: Scope) -> Problem:
    match exc:
        case errors.EngramError() | HttpError():
            return problem_of(exc)
        case HTTPException():
            return routing_problem(exc, scope)
        case _:
            return INTERNAL_ERROR


def _audit(exc: Exception, scope: Scope) -> None:
    """Record in the audit trail what a key was not allowed to do."""
    if isinstance(exc, errors.AccessDeniedError) and "principal" in scope["state"]:
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
            # A traceback adds nothing while the database is unreachable or the server is busy.
            exc_info=None
            if isinstance(exc, (errors.StoreUnavailableError, errors.ServerBusyError))
            else exc,
        )

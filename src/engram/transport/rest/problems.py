"""Failures as RFC 9457 problems: one table from error to status, one stable code for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NotRequired, cast

import orjson
from starlette.exceptions import HTTPException
from starlette.routing import Match, Router
from starlette.types import Scope, Send
from typing_extensions import TypedDict

from engram.errors import (
    AccessDeniedError,
    ConflictError,
    EngramError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    RateLimitedError,
    RequestTooLargeError,
    StoreBusyError,
    StoreFullError,
    TooManyAtOnceError,
    TooManySessionsError,
    UnauthenticatedError,
    UnavailableError,
)
from engram.transport.facts import error_facts

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
"""What a client should wait when the store was busy; it rarely is for longer."""

STATUS: Mapping[type[EngramError], int] = {
    InvalidRequestError: 400,
    RequestTooLargeError: 413,
    UnauthenticatedError: 401,
    AccessDeniedError: 403,
    QuotaExceededError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    RateLimitedError: 429,
    TooManyAtOnceError: 429,
    TooManySessionsError: 429,
    UnavailableError: 503,
    StoreBusyError: 503,
    StoreFullError: 507,
    EngramError: 500,
}
"""The status of an error is that of the nearest of its classes here."""


_PHRASES = {413: "Content Too Large", 416: "Range Not Satisfiable"}
"""Names of RFC 9110 that Python has from 3.13 on."""


class ProblemView(TypedDict):
    """What every failure looks like; `code` never changes its meaning."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: NotRequired[str]
    limit: NotRequired[int]
    actual: NotRequired[int]
    unit: NotRequired[str]
    required: NotRequired[str]
    toolset: NotRequired[str]
    resource: NotRequired[str]
    offset_bytes: NotRequired[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A failure, ready to be sent."""

    status: int
    code: str
    title: str
    detail: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def view(self) -> ProblemView:
        """Return what the client reads."""
        view: ProblemView = {
            "type": f"urn:engram:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        return cast("ProblemView", {**view, **self.facts})


class HttpError(Exception):
    """A request refused for how it was sent, not for what it asks."""

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


def problem_of(error: EngramError | HttpError) -> Problem:
    """Return the problem that tells a client about `error`."""
    if isinstance(error, HttpError):
        return _plain(error.status, error.code, error.detail, error.headers)
    kind = next(kind for kind in type(error).__mro__ if kind in STATUS)
    return Problem(
        status=STATUS[kind],
        code=error.code,
        title=(type(error).__doc__ or "").strip(),
        detail=error.message,
        facts=error_facts(error),
        headers=_headers(error, STATUS[kind]),
    )


def routing_problem(exc: HTTPException, scope: Scope) -> Problem:
    """Return the problem of a request that no route takes."""
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
    body = orjson.dumps(problem.view())
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


def _headers(error: EngramError, status: int) -> dict[str, str]:
    match error:
        case UnauthenticatedError():
            return {"WWW-Authenticate": "Bearer"}
        case RateLimitedError():
            wait_s = str(max(1, math.ceil(error.retry_after_s)))
            return {
                "Retry-After": wait_s,
                "RateLimit-Limit": str(error.limit),
                "RateLimit-Remaining": "0",
                "RateLimit-Reset": wait_s,
            }
        case TooManyAtOnceError() | TooManySessionsError():
            return {"Retry-After": str(RETRY_AFTER_S)}
        case _ if status == HTTPStatus.SERVICE_UNAVAILABLE:
            return {"Retry-After": str(RETRY_AFTER_S)}
        case _:
            return {}


def _allowed_methods(scope: Scope) -> list[str]:
    """Return the methods of every route at this path; the framework names those of the first."""
    router: Router = scope["router"]
    methods = set[str]()
    for route in router.routes:
        if route.matches(scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set[str]()
    return sorted(methods)

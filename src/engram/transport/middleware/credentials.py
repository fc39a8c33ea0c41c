"""Turns the credential of a request into its principal, and counts the request against its key."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from engram.service import Service
from engram.service.rate import RateState
from engram.transport.middleware.hosts import is_loopback
from engram.transport.rest.headers import add_header, bearer_token, header

OPERATOR_PATHS = frozenset({"admin"})
"""First segments of the paths that need the operator's token."""

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/api/v1/openapi.json"})
"""Paths that everybody may read; a path that is not named here needs a key, known or not."""

DISCOVERY_PATHS = frozenset({".well-known"})
"""First segments of what clients look for before they have a key; nothing is there, and 404 says so."""

METRICS_PATH = "/metrics"
"""For this machine's own scraper, or with the operator's token."""

LOOPBACK_PEERS = frozenset({"127.0.0.1", "::1"})
SCRAPER_HEADERS = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"authorization",
        b"baggage",
        b"connection",
        b"host",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        b"x-prometheus-scrape-timeout-seconds",
    }
)
"""What scrapers send. A proxy on this machine is a loopback peer too, and there is no end to the
headers by which proxies say for whom they ask: so a request with any other header is not local."""

PROXY_HTTP_VERSION = "1.0"
"""What nginx speaks to servers unless it is told otherwise, without a header that shows it."""


class Credentials:
    """Leaves the principal in the scope's state; nothing else names an organisation."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        segment = path.split("/", 2)[1] if path.startswith("/") else ""
        service: Service = scope["state"]["service"]
        if segment in OPERATOR_PATHS or (path == METRICS_PATH and not _is_local(scope)):
            scope["state"]["operator"] = service.access.authenticate_operator(
                bearer_token(scope), address=_address(scope)
            )
        elif not _is_public(path, segment):
            await _admit(service, scope)
        await self._app(scope, receive, send)


def _is_public(path: str, segment: str) -> bool:
    return path in PUBLIC_PATHS or path == METRICS_PATH or segment in DISCOVERY_PATHS


def _is_local(scope: Scope) -> bool:
    peer = scope.get("client")
    if peer is None or peer[0] not in LOOPBACK_PEERS or not is_loopback(header(scope, b"host")):
        return False
    if scope["http_version"] == PROXY_HTTP_VERSION:
        return False
    return all(name in SCRAPER_HEADERS for name, _ in scope["headers"])


def _address(scope: Scope) -> str | None:
    """Return the peer's address; what headers say of it is the caller's to choose."""
    peer = scope.get("client")
    return None if peer is None else peer[0]


async def _admit(service: Service, scope: Scope) -> None:
    principal = await service.access.authenticate(bearer_token(scope), address=_address(scope))
    state = service.access.take_request(principal)
    if state is not None:
        _add_rate_headers(scope, state)
    scope["state"]["principal"] = principal


def _add_rate_headers(scope: Scope, state: RateState) -> None:
    add_header(scope, "RateLimit-Limit", str(state.limit))
    add_header(scope, "RateLimit-Remaining", str(state.remaining))
    add_header(scope, "RateLimit-Reset", str(state.reset_s))

"""Admission of requests: allowed hosts and origins, credentials, and the turns of organisations."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.http.headers import add_header, bearer_token, has_header, header
from engram.http.problems import HttpError
from engram.model.access import Principal
from engram.model.authority import host_named, host_of, host_of_origin
from engram.page import is_live, is_of_page
from engram.page.cookies import session_secret
from engram.service import Service
from engram.service.access.admission import Turn
from engram.service.access.rate import RateState
from engram.yielding import serving

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_HOST = "*"

OPERATOR_PATHS = frozenset({"admin"})
"""First segments of the paths that need the operator's token."""

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/api/v1/openapi.json"})
"""Paths without authentication; any other path needs a key, whether it exists or not."""

DISCOVERY_PATHS = frozenset({".well-known"})
"""First segments of the paths that clients probe before they have a key; the answer is 404."""

METRICS_PATH = "/metrics"
"""For this machine's own scraper, or with the operator's token."""

LOOPBACK_PEERS = frozenset({"127.0.0.1", "::1"})

SCRAPER_HEADERS = frozenset({
    b"accept", b"accept-encoding", b"authorization", b"baggage", b"connection", b"host",
    b"traceparent", b"tracestate", b"user-agent", b"x-prometheus-scrape-timeout-seconds",
})  # fmt: skip
"""What scrapers send. A proxy on this machine is a loopback peer too, and proxies use countless headers
to name their client: so a request with any other header is not local."""

PROXY_HTTP_VERSION = "1.0"
"""What nginx speaks to upstream servers by default, without a header that reveals it."""

STATIC_FILES = "/static/"
"""Files of the page, which are the same for everybody."""

STREAMS = frozenset({"/sse"})
"""Paths whose requests last as long as their clients; their calls take a turn each."""


class HostCheck:
    """Lets loopback names pass on any port, and the names the operator allowed."""

    def __init__(self, app: ASGIApp, *, allowed: Iterable[str]) -> None:
        self._app = app
        names = tuple(allowed)
        self._is_open = ANY_HOST in names
        self._allowed = LOOPBACK_NAMES | {host_named(name) for name in names} - {None}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_open:
            self._check_host(header(scope, b"host"))
            if has_header(scope, b"origin"):
                self._check_origin(header(scope, b"origin"))
        await self._app(scope, receive, send)

    def _check_host(self, host: str | None) -> None:
        if host_of(host or "") not in self._allowed:
            detail = f"this server does not answer for the host {host!r}: see ENGRAM_ALLOWED_HOSTS"
            raise HttpError(421, "host_not_allowed", detail)

    def _check_origin(self, origin: str | None) -> None:
        if host_of_origin(origin or "") not in self._allowed:
            detail = f"requests from {origin!r} are not allowed: see ENGRAM_ALLOWED_HOSTS"
            raise HttpError(403, "origin_not_allowed", detail)


def is_loopback(host: str | None) -> bool:
    """Return True if a `Host` header names this machine."""
    return host_of(host or "") in LOOPBACK_NAMES


class Credentials:
    """Authenticates a request and puts its principal into the scope's state."""

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
        elif is_of_page(path) and not has_header(scope, b"authorization"):
            await _admit_visitor(service, scope)
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
    """Return the peer's address; headers that name one can be forged."""
    peer = scope.get("client")
    return None if peer is None else peer[0]


async def _admit_visitor(service: Service, scope: Scope) -> None:
    """Let a browser in with its session; without one it gets no further than to the sign-in."""
    secret = session_secret(scope)
    if secret is None or scope["path"].startswith(STATIC_FILES):
        return
    visitor = await service.sessions.find_visitor(secret)
    if visitor is None:
        return
    if visitor.operator is not None:
        scope["state"]["operator"] = visitor.operator
    if visitor.principal is not None:
        _take_request(service, scope, visitor.principal)


async def _admit(service: Service, scope: Scope) -> None:
    principal = await service.access.authenticate(bearer_token(scope), address=_address(scope))
    _take_request(service, scope, principal)


def _take_request(service: Service, scope: Scope, principal: Principal) -> None:
    state = service.access.take_request(principal)
    if state is not None:
        _add_rate_headers(scope, state)
    scope["state"]["principal"] = principal


def _add_rate_headers(scope: Scope, state: RateState) -> None:
    add_header(scope, "RateLimit-Limit", str(state.limit))
    add_header(scope, "RateLimit-Remaining", str(state.remaining))
    add_header(scope, "RateLimit-Reset", str(state.reset_s))


class FairTurns:
    """Takes a turn for every request with a principal; see `engram.service.access.turns`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope["state"].get("principal")
        if principal is None or scope["path"] in STREAMS or is_live(scope["path"]):
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
            # The body is complete: this waits for a disconnect, beside the work.
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

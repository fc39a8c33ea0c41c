"""Refuses requests for another host or from another site, so that no web page reaches a local server."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from engram.model.authority import host_named, host_of, host_of_origin
from engram.transport.rest.headers import has_header, header
from engram.transport.rest.problems import HttpError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_HOST = "*"


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

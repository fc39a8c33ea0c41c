"""Refuses a request body above `limits.BODY_BYTES_MAX`, announced or not.

Bodies that are streamed to the store are bounded there: their bound is a setting.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram import limits
from engram.errors import RequestTooLargeError
from engram.model.checks import parse_whole_number
from engram.transport.rest.headers import has_header, header

STREAMED = frozenset({("POST", "/api/v1/documents")})
"""Requests whose bodies are never held in memory."""


class BodyLimit:
    """Trusts an announced length, which the server enforces, and counts a body without one."""

    def __init__(self, app: ASGIApp, *, bytes_max: int = limits.BODY_BYTES_MAX) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if has_header(scope, b"content-length"):
            length = _announced_length(scope)
            if not _is_streamed(scope):
                self._check(length)
            await self._app(scope, receive, send)
        elif _is_streamed(scope):
            await self._app(scope, receive, send)
        else:
            await _CountedBody(self._bytes_max, receive, send).run(self._app, scope)

    def _check(self, length: int) -> None:
        if length > self._bytes_max:
            raise _too_large(length, self._bytes_max)


class _CountedBody:
    """One request whose body is counted as it arrives.

    An application between us and the route may turn the error that stops it into an answer of its
    own; that answer is dropped, so that every body too large gets the same one.
    """

    def __init__(self, bytes_max: int, receive: Receive, send: Send) -> None:
        self._bytes_max = bytes_max
        self._receive_next = receive
        self._send_on = send
        self._received = 0
        self._started = False

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        await app(scope, self._receive, self._send)
        if self._is_too_large and not self._started:
            raise self._error()

    async def _receive(self) -> Message:
        message = await self._receive_next()
        self._received += len(message.get("body", b""))
        if self._is_too_large:
            raise self._error()
        return message

    async def _send(self, message: Message) -> None:
        if self._is_too_large and not self._started:
            return
        self._started = True
        await self._send_on(message)

    @property
    def _is_too_large(self) -> bool:
        return self._received > self._bytes_max

    def _error(self) -> RequestTooLargeError:
        return _too_large(self._received, self._bytes_max)


def _is_streamed(scope: Scope) -> bool:
    return (scope["method"], scope["path"]) in STREAMED


def _announced_length(scope: Scope) -> int:
    return parse_whole_number("Content-Length", header(scope, b"content-length") or "")


def _too_large(actual: int, limit: int) -> RequestTooLargeError:
    return RequestTooLargeError("body", limit=limit, actual=actual, unit="bytes")

"""Lets a client whose body is refused unread get to the answer.

A connection that is closed while its client still sends is reset, and what was sent to the client is lost
with it. So what is left of the body is taken and thrown away, within bounds, before the answer ends.
"""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram import limits

_CLOSE = (b"connection", b"close")


class UnreadBodies:
    """Follows each body that a request has, and deals with what nobody read of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not has_body(scope):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request with a body, and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._is_last = scope.get("http_version") == "1.0"
        self._receive_next = receive
        self._send_on = send
        self._is_begun = self._is_read = False

    async def receive(self) -> Message:
        message = await self._receive_next()
        self._is_begun = True
        self._is_read = self._is_read or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self._is_read:
            await self._send_on(message)
        elif message["type"] == "http.response.start":
            await self._send_on(self._with_end(message))
        elif message.get("more_body", False) or not self._is_last or self._is_held_back:
            await self._send_on(message)
        else:
            # The whole answer is on its way; the connection closes after its end, which is empty.
            await self._send_on({**message, "more_body": True})
            await self._discard()
            await self._send_on({"type": "http.response.body", "body": b""})

    @property
    def _is_held_back(self) -> bool:
        """Whether the client sends its body only when it is told to go on."""
        return not self._is_begun and self._headers.get(b"expect", b"").lower() == b"100-continue"

    def _with_end(self, message: Message) -> Message:
        """Return the beginning of an answer, which ends the connection if the body cannot be skipped."""
        length = self._headers.get(b"content-length", b"")
        is_number = length.isdigit() and len(length) <= len(str(limits.UNREAD_BYTES_MAX))
        is_bounded = is_number and int(length) <= limits.UNREAD_BYTES_MAX
        is_close = b"close" in self._headers.get(b"connection", b"").lower()
        self._is_last = self._is_last or is_close or not is_bounded or self._is_held_back
        if not self._is_last:
            return message  # the server skips the rest and waits for the next request
        return {**message, "headers": [*message.get("headers", ()), _CLOSE]}

    async def _discard(self) -> None:
        left = limits.UNREAD_BYTES_MAX
        with anyio.move_on_after(limits.UNREAD_S):
            while left > 0 and not self._is_read:
                message = await self.receive()
                size = len(message.get("body", b""))
                left -= size
                await anyio.sleep(size / limits.WASTE_BYTES_PER_S)


def has_body(scope: Scope) -> bool:
    """Return True if a request announces a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )

"""Responses of the page, with the headers that keep stored text from acting."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from engram.api.encoding import encode_answer
from engram.model.value import plain
from engram.page.cookies import NewCookie

_NONCE_BYTES = 18
SEE_OTHER = 303
_IN_ADDRESSES = "/?#[]@!$&'()*+,;=:%~"


def new_nonce() -> str:
    """Return the nonce of one response."""
    return secrets.token_urlsafe(_NONCE_BYTES)


def content_policy(nonce: str) -> str:
    """Return the Content-Security-Policy of a view."""
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'; require-trusted-types-for 'script'"
    )


_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    # Without a referrer browsers send no origin with a form, which the check of forms needs.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept, cookie"),
)


async def send_html(
    send: Send, body: str, *, nonce: str, status: int = 200, cookies: Iterable[NewCookie] = ()
) -> None:
    """Send a view."""
    policy = content_policy(nonce).encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy),
        *cookies,
    ]
    await _send(send, body.encode(errors="replace"), status=status, headers=headers)


async def send_json(send: Send, value: Any) -> None:
    """Send the value of a view."""
    body = await encode_answer(plain(value))
    await _send(send, body, headers=[(b"content-type", b"application/json")])


async def send_text(send: Send, text: str) -> None:
    """Send Markdown, which browsers show as plain text."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await _send(send, text.encode(errors="replace"), headers=headers)


async def send_on(send: Send, to: str, *, cookies: Iterable[NewCookie] = ()) -> None:
    """Send the browser to another address of the page, which it reads with GET."""
    # Whatever an act puts into an address, it stays one header.
    headers = [(b"location", quote(to, safe=_IN_ADDRESSES).encode()), *cookies]
    await _send(send, b"", status=SEE_OTHER, headers=headers)


async def send_pieces(
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str],
    pieces: AsyncIterator[bytes],
) -> None:
    """Send a body as it is read; the answer begins when the first piece has been read."""
    client = Request(scope, receive)
    first = await anext(pieces, b"")
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": named})
    await send({"type": "http.response.body", "body": first, "more_body": True})
    async for piece in pieces:
        if await client.is_disconnected():
            return
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _send(
    send: Send,
    body: bytes,
    *,
    headers: Iterable[tuple[bytes, bytes]],
    status: int = 200,
) -> None:
    length = (b"content-length", b"%d" % len(body))
    start = {"status": status, "headers": [*headers, *_ALWAYS, length]}
    await send({"type": "http.response.start", **start})
    await send({"type": "http.response.body", "body": body})

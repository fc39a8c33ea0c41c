"""Signing in and out, and the choice of a theme: what works before anybody is known."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from engram import limits
from engram.errors import EngramError, RateLimitedError, UnauthenticatedError
from engram.page.answers import new_nonce, send_html, send_on
from engram.page.cookies import (
    NewCookie,
    as_theme,
    begin_session,
    end_session,
    keep_theme,
    session_secret,
    theme_of,
)
from engram.page.forms import check_same_site, read_form
from engram.page.rendering import render
from engram.page.visit import read_fields
from engram.service import Service

SIGN_IN = "/sign-in"
LINK = "/sign-in/link"
SIGN_OUT = "/sign-out"
THEME = "/theme"
PUBLIC = frozenset({SIGN_IN, LINK, SIGN_OUT, THEME})


async def answer_publicly(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request that needs no session."""
    path, is_post = scope["path"], scope["method"] == "POST"
    if path == LINK:
        await _redeem(scope, send)
    elif not is_post:
        await _ask(scope, send)
    else:
        check_same_site(scope)
        form = await read_form(scope, receive, bytes_max=limits.PAGE_SIGN_IN_BYTES_MAX)
        fields = dict(form)
        if path == SIGN_IN:
            await _sign_in(scope, send, fields)
        elif path == SIGN_OUT:
            await _sign_out(scope, send)
        else:
            await _choose_theme(send, fields)


async def _ask(scope: Scope, send: Send) -> None:
    query = dict(read_fields(scope["query_string"], field="query string"))
    if scope["state"].get("principal") or scope["state"].get("operator"):
        await send_on(send, local_path(query.get("next")))
        return
    await _send_form(scope, send, following=query.get("next"))


async def _sign_in(scope: Scope, send: Send, fields: dict[str, str]) -> None:
    service: Service = scope["state"]["service"]
    peer = scope.get("client")
    address = None if peer is None else peer[0]
    try:
        secret = await service.sessions.sign_in(fields.get("key", "").strip(), address=address)
    except (UnauthenticatedError, RateLimitedError) as exc:
        await _send_form(scope, send, following=fields.get("next"), failure=exc)
        return
    cookie = begin_session(secret, is_secure=_is_secure(scope))
    await send_on(send, local_path(fields.get("next")), cookies=(cookie,))


async def _redeem(scope: Scope, send: Send) -> None:
    service: Service = scope["state"]["service"]
    query = dict(read_fields(scope["query_string"], field="query string"))
    try:
        secret = await service.sessions.redeem_link(query.get("token", ""))
    except UnauthenticatedError as exc:
        exc.message = "this link was used already, or is too old: `engram open` prints a new one"
        await _send_form(scope, send, following=None, failure=exc)
        return
    # Not a redirect: after a click in another program browsers would leave out a strict cookie.
    await _send_page(
        scope, send, "signed_in.html", cookies=(begin_session(secret, is_secure=False),)
    )


async def _sign_out(scope: Scope, send: Send) -> None:
    service: Service = scope["state"]["service"]
    if secret := session_secret(scope):
        await service.sessions.sign_out(secret)
    await send_on(send, SIGN_IN, cookies=end_session())


async def _choose_theme(send: Send, fields: dict[str, str]) -> None:
    theme = as_theme(fields.get("theme"))
    await send_on(send, local_path(fields.get("next")), cookies=(keep_theme(theme),))


async def _send_form(
    scope: Scope, send: Send, *, following: str | None, failure: EngramError | None = None
) -> None:
    following = local_path(following)
    status = 200
    if failure is not None:
        status = 429 if isinstance(failure, RateLimitedError) else 401
    await _send_page(
        scope,
        send,
        "sign_in.html",
        status=status,
        following=following if following != "/" else None,
        failure=failure,
    )


async def _send_page(
    scope: Scope,
    send: Send,
    template: str,
    *,
    status: int = 200,
    cookies: tuple[NewCookie, ...] = (),
    **context: object,
) -> None:
    nonce = new_nonce()
    shown = {"nonce": nonce, "theme": theme_of(scope), **context}
    await send_html(send, render(template, shown), nonce=nonce, status=status, cookies=cookies)


def local_path(given: str | None) -> str:
    """Return a path of this server, whatever a link or a form says."""
    if not given or not given.startswith("/") or given[1:2] in {"/", "\\"}:
        return "/"
    return given if given.isprintable() and given.isascii() else "/"


def _is_secure(scope: Scope) -> bool:
    """Return True if the browser has sent the form over https: it says so itself."""
    origin = next((value for name, value in scope["headers"] if name == b"origin"), b"")
    return urlsplit(origin.decode("latin-1")).scheme == "https"

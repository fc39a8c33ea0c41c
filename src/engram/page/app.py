"""The page as an ASGI application: finds the view or act of a path, and answers in the form that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from engram import limits
from engram.errors import NotFoundError, UnauthenticatedError
from engram.page import JSON_SUFFIX, LIVE_SUFFIX, is_live
from engram.page.answers import (
    new_nonce,
    send_html,
    send_json,
    send_on,
    send_pieces,
    send_text,
)
from engram.page.cookies import (
    NewCookie,
    drop_notice,
    leave_notice,
    read_notice,
    session_secret,
    theme_of,
)
from engram.page.forms import check_same_site, read_form
from engram.page.navigation import Entry, navigation
from engram.page.rendering import render
from engram.page.sign_in import PUBLIC, SIGN_IN, answer_publicly
from engram.page.static_files import send_static
from engram.page.streams import Streams
from engram.page.uploads import read_upload
from engram.page.view import Act, Done, View
from engram.page.views import ACTS, VIEWS
from engram.page.visit import Download, Visit, read_fields
from engram.yielding import offload

TEXT_SUFFIX = ".md"
ORGANIZATIONS = "/organizations"


class Refusal(NamedTuple):
    """A failure as the page shows it."""

    status: int
    title: str
    detail: str
    code: str
    field: str | None = None


class Page:
    """The views and acts there are."""

    def __init__(self, views: Iterable[View] = VIEWS, acts: Iterable[Act] = ACTS) -> None:
        self.views = tuple(views)
        self.acts = tuple(acts)
        self._streams = Streams()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; failures are raised."""
        path: str = scope["path"]
        if path.startswith("/static/"):
            await send_static(scope, send)
        elif path in PUBLIC:
            await answer_publicly(scope, receive, send)
        elif scope["method"] == "POST":
            await self._act(scope, receive, send)
        else:
            await self._show(scope, receive, send)

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Show a failure; who is not signed in is asked to."""
        if refusal.status == 401 and scope["method"] != "POST":
            wanted = quote(_wanted(scope), safe="")
            await send_on(send, f"{SIGN_IN}?next={wanted}" if wanted != "%2F" else SIGN_IN)
            return
        nonce = new_nonce()
        # The address itself may be what was refused.
        context = {**self._frame({**scope, "query_string": b""}, nonce), "refusal": refusal}
        await send_html(send, render("error.html", context), nonce=nonce, status=refusal.status)

    async def _show(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, form = wanted_form(scope)
        if is_live(path):
            await self._stream(scope, receive, send, path.removesuffix(LIVE_SUFFIX))
            return
        view, parameters = self.find_view(path)
        visit = _visit(scope, path=path, parameters=parameters)
        if visit.operator is not None and not view.is_operators and not visit.has_organization:
            await send_on(send, ORGANIZATIONS)
            return
        _authorise(visit, view)
        if form == "text" and view.text is None:
            raise NotFoundError("page", scope["path"])
        value = await view.load(visit)
        if isinstance(value, Download):
            await send_pieces(scope, receive, send, value.headers, value.pieces)
        elif form == "json":
            await send_json(send, value)
        elif view.text is not None and form == "text":
            await send_text(send, view.text(value))
        else:
            await self._send_view(scope, send, view, visit, value)

    async def _stream(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        view, parameters = self.find_view(path)
        if view.live is None or view.pulse is None:
            raise NotFoundError("page", scope["path"])
        visit = _visit(scope, path=path, parameters=parameters)
        _authorise(visit, view)
        await self._streams.serve(view, visit, receive, send, state=scope["state"])

    async def _send_view(
        self, scope: Scope, send: Send, view: View, visit: Visit, value: Any
    ) -> None:
        nonce = new_nonce()
        notice = read_notice(scope)
        context = {
            **self._frame(scope, nonce, visit=visit),
            "page": value,
            "view": view,
            "notice": notice,
            "json_link": _beside(visit, JSON_SUFFIX),
        }
        cookies = () if notice is None else (drop_notice(),)
        await self._send_rendered(send, view.template, context, nonce=nonce, cookies=cookies)

    async def _send_rendered(
        self,
        send: Send,
        template: str,
        context: Mapping[str, Any],
        *,
        nonce: str,
        cookies: Iterable[NewCookie] = (),
    ) -> None:
        # Rendered on a thread, whatever the length: nobody else waits for long texts, and counting
        # their characters would take longer than a thread does.
        work = partial(render, template, context)
        html = await offload(work, characters=limits.INLINE_CHARACTERS_MAX + 1)
        await send_html(send, html, nonce=nonce, cookies=cookies)

    async def _act(self, scope: Scope, receive: Receive, send: Send) -> None:
        check_same_site(scope)
        act, parameters = self._find_act(scope["path"])
        visit = _visit(scope, path=scope["path"], parameters=parameters)
        _authorise(visit, act)
        if act.reads_file:
            visit.form, visit.file = await read_upload(scope, receive)
        else:
            visit.form = await read_form(scope, receive, bytes_max=limits.PAGE_FORM_BYTES_MAX)
        outcome = await act.run(visit)
        if isinstance(outcome, Done):
            await send_on(send, outcome.to, cookies=_notice_of(outcome))
        elif wanted_form(scope)[1] == "json":
            await send_json(send, outcome.page)
        else:
            nonce = new_nonce()
            context = {**self._frame(scope, nonce, visit=visit), "page": outcome.page}
            await self._send_rendered(send, outcome.template, context, nonce=nonce)

    def find_view(self, path: str) -> tuple[View, Mapping[str, str]]:
        """Return the view at a path, and the parts of the path that it names.

        Raises:
            NotFoundError: there is none.
        """
        for pattern, view in self._views:
            if match := pattern.fullmatch(path):
                return view, match.groupdict()
        raise NotFoundError("page", path)

    def _find_act(self, path: str) -> tuple[Act, Mapping[str, str]]:
        for pattern, act in self._acts:
            if match := pattern.fullmatch(path):
                return act, match.groupdict()
        raise NotFoundError("page", path)

    @cached_property
    def _views(self) -> list[tuple[Any, View]]:
        return [(compile_path(view.path)[0], view) for view in self.views]

    @cached_property
    def _acts(self) -> list[tuple[Any, Act]]:
        return [(compile_path(act.path)[0], act) for act in self.acts]

    def _frame(self, scope: Scope, nonce: str, visit: Visit | None = None) -> dict[str, Any]:
        """Return what every template needs."""
        visit = visit or _visit(scope, path=scope["path"], parameters={})
        shown = [
            Entry(view.path, view.menu.label, view.menu.place)
            for view in self.views
            if view.menu is not None
            and (visit.operator is not None if view.is_operators else visit.allows(*view.scopes))
        ]
        return {
            "nonce": nonce,
            "theme": theme_of(scope),
            "visit": visit,
            "now": visit.now,
            "navigation": navigation(shown, scope["path"]),
            "path": scope["path"],
        }


def wanted_form(scope: Scope) -> tuple[str, str]:
    """Return the path of a view, and whether HTML, JSON or text of it is asked for."""
    path: str = scope["path"]
    if path.endswith(JSON_SUFFIX):
        return path.removesuffix(JSON_SUFFIX) or "/", "json"
    if path.endswith(TEXT_SUFFIX):
        return path.removesuffix(TEXT_SUFFIX), "text"
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    is_json = b"application/json" in accepted and b"text/html" not in accepted
    return path, "json" if is_json else "html"


def _visit(scope: Scope, *, path: str, parameters: Mapping[str, str]) -> Visit:
    state = scope["state"]
    return Visit(
        state["service"],
        principal=state.get("principal"),
        operator=state.get("operator"),
        path=path,
        parameters=parameters,
        query=read_fields(scope["query_string"], field="query string"),
        secret=session_secret(scope),
    )


def _authorise(visit: Visit, wanted: View | Act) -> None:
    """Refuse who is not signed in, or may not see this.

    Raises:
        UnauthenticatedError: nobody is signed in.
        AccessDeniedError: the key lacks a scope.
    """
    if wanted.is_operators:
        if visit.operator is None:
            raise UnauthenticatedError
        return
    visit.principal.require(*wanted.scopes)


def _notice_of(done: Done) -> tuple[tuple[bytes, bytes], ...]:
    if done.notice is None:
        return ()
    return (leave_notice(done.as_notice()),)


def _beside(visit: Visit, suffix: str) -> str:
    return visit.link(f"{visit.path}{suffix}")


def _wanted(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return scope["path"] + (f"?{query.decode('latin-1')}" if query else "")

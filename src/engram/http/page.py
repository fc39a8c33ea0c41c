"""The route of the page: its application is imported with the first request for it."""

from __future__ import annotations

from functools import cached_property, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from engram.http.problems import SHOW_PROBLEM, HttpError, Problem
from engram.page import LIVE_SUFFIX, is_live, is_of_page

if TYPE_CHECKING:
    from engram.page.app import Page

READING = frozenset({"GET", "HEAD"})
ACTING = "POST"


_LIVE = SimpleNamespace(path=f"/…{LIVE_SUFFIX}")
"""The label of streams among the metrics: they last as long as somebody looks."""


class PageRoute(BaseRoute):
    """Everything below the first segments of the page."""

    methods = frozenset({*READING, ACTING})
    path = "/"
    """The label of its requests among the metrics."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for the page."""
        if scope["type"] != "http" or not is_of_page(scope["path"]):
            return Match.NONE, {}
        return Match.FULL, {"route": _LIVE if is_live(scope["path"]) else self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what fails is shown to people as HTML."""
        if scope["method"] not in self.methods:
            allowed = ", ".join(sorted(self.methods))
            raise HttpError(405, "method_not_allowed", f"use {allowed}", {"Allow": allowed})
        if self._is_for_people(scope):
            scope["state"][SHOW_PROBLEM] = partial(self._show_problem, scope)
        await self._page.answer(scope, receive, send)

    async def _show_problem(self, scope: Scope, problem: Problem, send: Send) -> None:
        from engram.page.app import Refusal  # noqa: PLC0415 it is imported by now

        refusal = Refusal(
            problem.status, problem.title, problem.detail, problem.code, problem.field
        )
        await self._page.refuse(scope, send, refusal)

    def _is_for_people(self, scope: Scope) -> bool:
        from engram.page.app import wanted_form  # noqa: PLC0415 it is imported by now

        return wanted_form(scope)[1] == "html" and not is_live(scope["path"])

    @cached_property
    def _page(self) -> Page:
        from engram.page.app import Page  # noqa: PLC0415 the start of a server pays for nothing of it

        return Page()

"""The ASGI application: REST, MCP, the page and health on one port, behind the same middleware."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from engram import limits
from engram.api.table import OPERATIONS
from engram.bodies.receiving import Bodies
from engram.bodies.siblings import NO_SIBLINGS, Siblings
from engram.clock import Clock, IdSource
from engram.engine.server import RunCommand, serving_local_clients
from engram.http import documents, exports
from engram.http.access import Credentials, FairTurns, HostCheck
from engram.http.headers import AnswerHeaders
from engram.http.metrics import Measured, Metrics, health_routes
from engram.http.openapi import document_route
from engram.http.page import PageRoute
from engram.http.problems import Failures
from engram.http.routes import operation_routes
from engram.mcp.http import McpHttp, build_mcp_http
from engram.service import Service
from engram.settings import Settings, exported_siblings, load_settings
from engram.wiring import open_service

logger = logging.getLogger(__name__)

WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
"""Hosts that mean every address; no client would send them."""


class Application:
    """Serves while its `lifespan` runs; the service lives exactly as long."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        ends_process: bool = False,
        run_command: RunCommand | None = None,
        siblings: Siblings = NO_SIBLINGS,
    ) -> None:
        """Use settings; with `ends_process` the process exits soon after its last request.

        As the engine of its store it runs the commands of local clients with `run_command`.
        """
        self._run_command = run_command
        self._siblings = siblings
        self._ends_process = ends_process
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._serving: tuple[Service, ASGIApp] | None = None
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await Router(lifespan=self.lifespan)(scope, receive, send)
            case "http":
                await self._answer(scope, receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1000, "reason": ""})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._serving is None:
            raise RuntimeError("a request came before start-up or after shut-down")
        service, app = self._serving
        scope["app"] = self
        state = scope.setdefault("state", {})
        state["service"], state["bodies"] = service, self._bodies
        await app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncGenerator[None]:
        """Open the store, serve, and close it after the last request."""
        sys.setswitchinterval(limits.THREAD_SWITCH_S)
        async with open_service(self._settings, clock=self._clock, ids=self._ids) as service:
            service.access.load_operators()
            siblings = self._siblings
            toolsets = self._settings.shown_toolsets
            mcp = build_mcp_http(service, toolsets=toolsets, siblings=siblings)
            local = serving_local_clients(self._settings, service, self._run_command)
            async with mcp.run(), service.background_work(), local:
                self._serving = (service, build_app(service, mcp, self._settings, siblings))
                # Long-lived objects are exempt from garbage collection from now on.
                gc.collect()
                gc.freeze()
                logger.info("serving the store in %s", self._settings.store_place)
                async with siblings.listening(self._answer):
                    yield
                self._serving = None
                if self._ends_process:
                    _exit_after(limits.STOP_S)


def _exit_after(seconds: float) -> None:
    """Exit the process in so many seconds, whatever is still at work by then.

    Nothing is lost: what was acknowledged is on disk, and leases give other work to the next process.
    """

    def end() -> None:
        logger.warning(
            "the process did not stop within %s s: it exits with work unfinished", seconds
        )
        logging.shutdown()
        os._exit(0)

    watchdog = threading.Timer(seconds, end)
    watchdog.daemon = True
    watchdog.start()


def create_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    ends_process: bool = False,
    run_command: RunCommand | None = None,
    siblings: Siblings = NO_SIBLINGS,
) -> Application:
    """Return the application for `settings`."""
    return Application(
        settings,
        clock=clock,
        ids=ids,
        ends_process=ends_process,
        run_command=run_command,
        siblings=siblings,
    )


def create_app_from_environment(run_command: RunCommand | None = None) -> Application:
    """Return the application for the settings in the environment; the entry point of workers."""
    siblings = Siblings(exported_siblings(), name=str(os.getpid()))
    return create_app(
        load_settings(), ends_process=True, run_command=run_command, siblings=siblings
    )


def build_app(
    service: Service, mcp: McpHttp, settings: Settings, siblings: Siblings = NO_SIBLINGS
) -> ASGIApp:
    """Return the routes behind their middleware, the outermost last."""
    metrics = Metrics(service.activity)
    # Routes are tried in order: most requests are for MCP, and one look tells those for the page.
    routes = [
        *mcp.routes,
        PageRoute(),
        *operation_routes(OPERATIONS, {**documents.HANDLERS, **exports.HANDLERS}),
        document_route(),
        *health_routes(metrics, siblings),
    ]
    app: ASGIApp = Router(routes, redirect_slashes=False)
    app = FairTurns(app)
    app = Credentials(app)
    app = HostCheck(app, allowed=_allowed_hosts(settings))
    app = Failures(app, service.turns)
    app = Measured(app, metrics)
    return AnswerHeaders(app)


def _allowed_hosts(settings: Settings) -> tuple[str, ...]:
    # A DNS name can be rebound; the address that the operator bound cannot.
    bound = () if settings.host in WILDCARDS else (settings.host,)
    return (*settings.allowed_hosts, *bound)

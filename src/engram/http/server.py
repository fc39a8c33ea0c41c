"""Runs the application under uvicorn, in one process or several on the same port."""

from __future__ import annotations

import errno
import signal
import socket
from contextlib import suppress
from types import FrameType

import uvicorn
from uvicorn.supervisors import Multiprocess

from engram import limits
from engram.bodies.siblings import siblings_directory
from engram.engine.server import RunCommand
from engram.errors import ConfigurationError
from engram.http.asgi import Application, create_app
from engram.http.connections import EdgeBounds, make_room_for, refuse_few_files
from engram.http.protocol import EdgeConfig
from engram.logs import log_config
from engram.settings import Settings, export_settings

_BIND_FAULTS = {
    errno.EADDRINUSE: ("PORT", "is in use: stop the other program or choose another port"),
    errno.EACCES: ("PORT", "may not be bound by this user: choose one above 1023"),
    errno.EADDRNOTAVAIL: ("HOST", "is not an address of this machine"),
}


def listen(settings: Settings) -> socket.socket:
    """Return a socket on the host and port of `settings`; clients may connect from now on.

    Raises:
        ConfigurationError: the address cannot be bound, or too few files may be open.
    """
    refuse_few_files()
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ConfigurationError("ENGRAM_HOST", f"{settings.host} is not a known address") from exc
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(limits.CONNECTION_BACKLOG)
    except OSError as exc:
        listener.close()
        setting, problem = _BIND_FAULTS.get(exc.errno or 0, ("PORT", f"cannot be bound: {exc}"))
        where = f"{settings.host} port {settings.port}"
        raise ConfigurationError(f"ENGRAM_{setting}", f"{where} {problem}") from exc
    listener.set_inheritable(True)
    return listener


def run(
    settings: Settings,
    listener: socket.socket | None = None,
    *,
    bounds: EdgeBounds | None = None,
    run_command: RunCommand | None = None,
    worker: str = "engram.http.asgi:create_app_from_environment",
) -> None:
    """Serve until interrupted or terminated; running requests are finished first.

    Args:
        run_command: runs commands of local clients, if this process is the engine of its store.
        worker: what makes the application in a process of several.
    """
    bounds = bounds or _bounds(settings)
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop.request)
    listener = listener or listen(settings)
    with listener, suppress(KeyboardInterrupt):
        app = worker if settings.workers > 1 else _application(settings, run_command)
        configuration = _configuration(settings, bounds, app)
        if settings.workers > 1:
            with siblings_directory() as siblings:
                # Workers are new processes, which load their settings from the environment.
                export_settings(settings, siblings=siblings)
                supervisor = Multiprocess(configuration, sockets=[listener])
                if not stop.is_requested:
                    supervisor.run()
        else:
            server = uvicorn.Server(configuration)
            stop.apply_to(server)
            server.run(sockets=[listener])


class _Stop:
    """Handles SIGTERM, which may come before uvicorn installs its own handler.

    uvicorn stops gracefully and then raises the signal again; being terminated is not a failure. No
    exception is raised here: callbacks that run while modules are imported would swallow it.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._server: uvicorn.Server | None = None

    def request(self, _: int, __: FrameType | None) -> None:
        """Handle the signal."""
        self.is_requested = True
        if self._server is not None:
            self._server.should_exit = True

    def apply_to(self, server: uvicorn.Server) -> None:
        """Stop a server on the signal, or at once if it came already."""
        self._server = server
        if self.is_requested:
            server.should_exit = True


def _bounds(settings: Settings) -> EdgeBounds:
    return EdgeBounds(
        connections_max=make_room_for(settings.connections_max),
        connections_per_address_max=settings.connections_per_address_max,
    )


def _application(settings: Settings, run_command: RunCommand | None) -> Application:
    return create_app(settings, ends_process=True, run_command=run_command)


def _configuration(settings: Settings, bounds: EdgeBounds, app: Application | str) -> EdgeConfig:
    return EdgeConfig(
        app,
        bounds=bounds,
        factory=isinstance(app, str),
        workers=settings.workers,
        loop="auto",
        ws="none",
        lifespan="on",
        log_config=log_config(settings),
        access_log=False,
        # Nothing here depends on a client's address, so no header may claim one.
        proxy_headers=False,
        server_header=False,
        backlog=limits.CONNECTION_BACKLOG,
        timeout_graceful_shutdown=limits.SHUTDOWN_S,
    )

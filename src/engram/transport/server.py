"""Runs the application under uvicorn, in one process or several on the same port."""

from __future__ import annotations

import errno
import signal
import socket
from contextlib import suppress
from types import FrameType

import uvicorn
from uvicorn.supervisors import Multiprocess

from engram.errors import ConfigurationError
from engram.settings import Settings, export_settings
from engram.transport.asgi import create_app
from engram.transport.edge.bounds import EdgeBounds
from engram.transport.edge.files import make_room_for
from engram.transport.edge.protocol import EdgeConfig
from engram.transport.logs import log_config

BACKLOG = 2_048
SHUTDOWN_S = 10
"""How long running requests may take to finish; an open stream is cut off after it."""

_BIND_FAULTS = {
    errno.EADDRINUSE: ("PORT", "is in use: stop the other program or choose another port"),
    errno.EACCES: ("PORT", "may not be bound by this user: choose one above 1023"),
    errno.EADDRNOTAVAIL: ("HOST", "is not an address of this machine"),
}


def listen(settings: Settings) -> socket.socket:
    """Return a socket on the host and port of `settings`; clients may connect from now on.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ConfigurationError("ENGRAM_HOST", f"{settings.host} is not a known address") from exc
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
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
) -> None:
    """Serve until interrupted or told to stop; running requests are finished first."""
    bounds = bounds or _bounds(settings)
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop.tell)
    listener = listener or listen(settings)
    with listener, suppress(KeyboardInterrupt):
        configuration = _configuration(settings, bounds)
        if settings.workers > 1:
            # Workers are new processes, which load their settings from the environment.
            export_settings(settings)
            supervisor = Multiprocess(configuration, sockets=[listener])
            if not stop.is_told:
                supervisor.run()
        else:
            server = uvicorn.Server(configuration)
            stop.when_told(server)
            server.run(sockets=[listener])


class _Stop:
    """Whether the process was told to end, before uvicorn listens for it or after.

    uvicorn stops gracefully and then raises the signal again; being told to stop is no failure. Nothing
    is raised: while modules are imported there are callbacks that lose what is raised in them.
    """

    def __init__(self) -> None:
        self.is_told = False
        self._server: uvicorn.Server | None = None

    def tell(self, _: int, __: FrameType | None) -> None:
        """Take the signal."""
        self.is_told = True
        if self._server is not None:
            self._server.should_exit = True

    def when_told(self, server: uvicorn.Server) -> None:
        """Have a server end once it is told, or at once if it was."""
        self._server = server
        if self.is_told:
            server.should_exit = True


def _bounds(settings: Settings) -> EdgeBounds:
    return EdgeBounds(
        connections_max=make_room_for(settings.connections_max),
        connections_per_address_max=settings.connections_per_address_max,
    )


def _configuration(settings: Settings, bounds: EdgeBounds) -> EdgeConfig:
    several = settings.workers > 1
    factory = "engram.transport.asgi:create_app_from_environment"
    return EdgeConfig(
        factory if several else create_app(settings),
        bounds=bounds,
        factory=several,
        workers=settings.workers,
        loop="auto",
        ws="none",
        lifespan="on",
        log_config=log_config(settings),
        access_log=False,
        # Nothing here depends on a client's address, so no header may claim one.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )

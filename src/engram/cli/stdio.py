"""MCP over stdin and stdout, on the local store or relayed to a server.

Separate from the command's options, so that `engram mcp` without options starts without typer.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engram.cli.invocation import Invocation
from engram.errors import ConfigurationError

if TYPE_CHECKING:
    import socket

    from engram.engine.commands import CommandCall, Outcome
    from engram.engine.server import Host
    from engram.settings import Settings


def run_bare_mcp() -> None:
    """Run `engram mcp` without options."""
    invocation = Invocation()
    with invocation.reporting():
        run_mcp(invocation)


def run_bare_engine() -> None:
    """Run `engram engine run` without options."""
    from engram.logs import configure_logging

    invocation = Invocation()
    with invocation.reporting():
        settings = invocation.settings()
        configure_logging(settings)
        with _importing():
            from engram.engine.server import run_engine

        try:
            run_engine(settings, run_for_client)
        except TimeoutError:
            # Whoever started this one is served as well by the other.
            print("another engine serves this store", file=sys.stderr)


def run_for_client(call: CommandCall, host: Host) -> Outcome | None:
    """Run a command of a local client; the commands are imported with the first."""
    from importlib import import_module

    # By its name, since it imports all commands, and those that start an engine import this.
    return import_module("engram.cli.hosting").run_for_client(call, host)


def run_mcp(invocation: Invocation, *, toolsets: str | None = None, url: str | None = None) -> None:
    """Serve one client until it closes stdin."""
    if sys.stdin.isatty():
        print(
            "waiting for MCP on stdin; see `engram mcp --help` for how clients connect",
            file=sys.stderr,
        )
    with _importing():
        serve = _server(invocation, toolsets=toolsets, url=url)
    serve()


def _server(invocation: Invocation, *, toolsets: str | None, url: str | None) -> Callable[[], None]:
    """Return what serves the client: a bridge to the engine, a relay, or this process alone."""
    from engram.engine.address import has_engine

    log = "debug" if invocation.debug else None
    settings = invocation.settings(toolsets=toolsets, url=url, log=log)
    if settings.url is None and has_engine(settings):
        return _bridge(settings)

    from engram.logs import configure_logging

    # Before importing the SDK, which would configure logging itself.
    configure_logging(settings)
    return _local(invocation, settings) if settings.url is None else _relay(settings, settings.url)


@contextmanager
def _importing() -> Generator[None]:
    """Disable garbage collection while modules are imported, since their objects all stay alive.

    Afterwards they are frozen, so that no later collection scans them in the middle of a search.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _bridge(settings: Settings) -> Callable[[], None]:
    import signal

    from engram import limits
    from engram.bodies.lines import split_lines
    from engram.engine.bridge import STDIN, Bridge

    def serve() -> None:
        signal.signal(signal.SIGTERM, _exit)
        bridge = Bridge(lambda: _reach_or_open(settings), settings.shown_toolsets)
        bridge.run(split_lines(STDIN, bytes_max=limits.BODY_BYTES_MAX))

    return serve


def _exit(_signal: int, _frame: object) -> None:
    """End the bridge on SIGTERM; the engine finishes what it was asked."""
    sys.exit()


def _reach_or_open(settings: Settings) -> socket.socket:
    """Return a connection to the engine, or as the last resort to the store opened in this process.

    Raises:
        EngramError: the store cannot be opened.
    """
    from engram.engine.address import address_of
    from engram.engine.launch import NoEngineError, reach_engine

    hello = {"toolsets": ",".join(settings.shown_toolsets), "hooks": settings.hooks}
    try:
        return reach_engine(settings, address_of(settings), hello)
    except (NoEngineError, ConfigurationError, OSError) as exc:
        print(f"working without the engine: {exc}", file=sys.stderr)
    from engram.engine.server import serve_alone

    return serve_alone(settings, hello)


def _local(invocation: Invocation, settings: Settings) -> Callable[[], None]:
    from importlib import import_module

    from engram.mcp.stdio import serve_stdio

    import_module("engram.wiring")  # needed by `invocation.run`
    return lambda: invocation.run(
        lambda service: serve_stdio(service, toolsets=settings.shown_toolsets)
    )


def _relay(settings: Settings, url: str) -> Callable[[], None]:
    import asyncio

    from engram.mcp.relay import relay_stdio

    # Without a choice here the server chooses the toolsets.
    toolsets = settings.toolsets
    return lambda: asyncio.run(relay_stdio(url, api_key=settings.api_key, toolsets=toolsets))

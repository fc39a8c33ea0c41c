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

if TYPE_CHECKING:
    from engram.settings import Settings


def run_bare_mcp() -> None:
    """Run `engram mcp` without options."""
    invocation = Invocation()
    with invocation.reporting():
        run_mcp(invocation)


def run_mcp(invocation: Invocation, *, toolsets: str | None = None, url: str | None = None) -> None:
    """Serve one client until it closes stdin."""
    if sys.stdin.isatty():
        print(
            "waiting for MCP on stdin; see `engram mcp --help` for how clients connect",
            file=sys.stderr,
        )
    with _importing():
        from engram.logs import configure_logging

        settings = invocation.settings(
            toolsets=toolsets, url=url, log="debug" if invocation.debug else None
        )
        # Before importing the SDK, which would configure logging itself.
        configure_logging(settings)
        serve = (
            _local(invocation, settings) if settings.url is None else _relay(settings, settings.url)
        )
    serve()


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

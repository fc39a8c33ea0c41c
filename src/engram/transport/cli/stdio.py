"""MCP over stdin and stdout, on the local store or relayed to a server.

Apart from the command's options, so that a bare `engram mcp` starts without building them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engram.transport.cli.invocation import Invocation

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
            "waiting for MCP on stdin; `engram mcp --help` says how clients connect",
            file=sys.stderr,
        )
    with _importing():
        from engram.transport.logs import configure_logging

        settings = invocation.settings(
            toolsets=toolsets, url=url, log="debug" if invocation.debug else None
        )
        # Before the SDK is imported, which would set up logging in its own way.
        configure_logging(settings)
        serve = (
            _local(invocation, settings) if settings.url is None else _relay(settings, settings.url)
        )
    serve()


@contextmanager
def _importing() -> Generator[None]:
    """Look for no garbage while modules are loaded: they are many objects, and all of them stay.

    Nor are they looked at ever again: a search would pay for it that happens to come then.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _local(invocation: Invocation, settings: Settings) -> Callable[[], None]:
    from importlib import import_module

    from engram.transport.mcp.stdio import serve_stdio

    import_module("engram.wiring")  # what `invocation.run` needs
    return lambda: invocation.run(lambda service: serve_stdio(service, toolsets=settings.toolsets))


def _relay(settings: Settings, url: str) -> Callable[[], None]:
    import asyncio

    from engram.transport.mcp.relay import relay_stdio

    # Toolsets that nobody chose here are the server's to choose.
    toolsets = settings.toolsets if "toolsets" in settings.model_fields_set else None
    return lambda: asyncio.run(relay_stdio(url, api_key=settings.api_key, toolsets=toolsets))

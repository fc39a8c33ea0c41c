"""Engram's command line.

Importing this costs nothing: each command imports what it needs when it runs, so that `--help`
stays quick and a client's `engram mcp` pays for nothing but MCP.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def main() -> None:
    """Run the command that the arguments name and exit with its status."""
    try:
        try:
            _dispatch(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read us has left; without this the interpreter would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _dispatch(arguments: list[str]) -> None:
    if arguments == ["mcp"]:
        # What every MCP client starts: it need not wait for the other commands to be built.
        from engram.transport.cli.stdio import run_bare_mcp

        run_bare_mcp()
    else:
        from engram.transport.cli.app import run_app

        run_app(arguments)

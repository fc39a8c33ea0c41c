"""Engram's command line.

Importing this costs nothing: each command imports what it needs when it runs, so that `--help`
stays quick and a client's `engram mcp` pays for nothing but MCP.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

__all__ = ["main"]

UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EIO}
"""How writing the answer fails: its reader left, the disk is full, the terminal is gone."""

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def main() -> None:
    """Run the command that the arguments name and exit with its status."""
    # NumPy's threads are for matrices of floats, which nobody multiplies here: starting them takes
    # a third of its import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 told to a library, not read
    try:
        try:
            _dispatch(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as exc:
        if exc.errno not in UNWRITABLE or exc.filename is not None:
            raise
        _give_up_output(exc)


def _give_up_output(cause: OSError) -> NoReturn:
    """Exit without writing the rest of the answer; quietly when its reader has left."""
    # The interpreter flushes once more at exit and would complain again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if cause.errno != errno.EPIPE:
        print(f"error: output: {cause.strerror}", file=sys.stderr)
    sys.exit(1)


def _dispatch(arguments: list[str]) -> None:
    if arguments == ["mcp"]:
        # What every MCP client starts: it need not wait for the other commands to be built.
        from engram.transport.cli.stdio import run_bare_mcp

        run_bare_mcp()
    else:
        from engram.transport.cli.app import run_app

        run_app(arguments)

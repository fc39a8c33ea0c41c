"""Engram's command line.

Importing this package is cheap: each command imports what it needs when it runs, so that `--help`
stays fast and `engram mcp` loads only MCP.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # At run time it would cost a hook a fifth of its time.
    from typing import NoReturn

__all__ = ["main"]

UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EIO}
"""Errors of writing to stdout: a closed pipe, a full disk, a closed terminal."""

INTERRUPTED = 130
"""The conventional exit status after Ctrl-C: 128 + SIGINT."""


def main() -> None:
    """Run the command that the arguments name and exit with its status."""
    # Starting OpenBLAS threads takes a third of NumPy's import time, and no command multiplies float
    # matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 set for a library, not read
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
        _exit_unwritable(exc)


def _exit_unwritable(cause: OSError) -> NoReturn:
    """Exit without writing the rest of the output; silently if the pipe was closed."""
    # The interpreter flushes stdout again at exit, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if cause.errno != errno.EPIPE:
        print(f"error: output: {cause.strerror}", file=sys.stderr)
    sys.exit(1)


def _dispatch(arguments: list[str]) -> None:
    if arguments == ["mcp"]:
        # MCP clients start this, and should not wait while the other commands are built.
        from engram.cli.stdio import run_bare_mcp

        run_bare_mcp()
    elif arguments == ["engine", "run"]:
        # Clients wait for it, and give no options.
        from engram.cli.stdio import run_bare_engine

        run_bare_engine()
    elif arguments[:1] == ["hook"] and _is_event(arguments[1:]):
        # An agent waits for it at every prompt.
        from engram.hooks.entry import run_hook

        run_hook(arguments[1:])
    else:
        sys.exit(_run(arguments))


def _run(arguments: list[str]) -> int:
    from engram.cli.invocation import reporting
    from engram.cli.thin import run_thin

    with reporting(arguments):
        status = run_thin(arguments)
    if status is not None:
        return status
    from engram.cli.app import run_command

    return run_command(arguments)


def _is_event(arguments: list[str]) -> bool:
    """Return True for what a client runs; the log and the help are for people."""
    return bool(arguments) and not {"log", "--help", "-h"}.intersection(arguments)

"""What a failed command says and how it exits: one line for a mistake, a traceback for a bug."""

from __future__ import annotations

import sys
import traceback

from engram.errors import (
    AccessDeniedError,
    ConfigurationError,
    ConflictError,
    EngramError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    UnauthenticatedError,
)
from engram.transport.cli.visible import visible_line

FAILED = 1
"""The command could not do its work, or found something wrong."""

MISTAKEN = 2
"""The caller can mend it: the usage, a value, a name, a setting."""

MISTAKES: tuple[type[EngramError], ...] = (
    AccessDeniedError,
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UnauthenticatedError,
)

_LISTINGS = {
    "conversation": "engram conversations list",
    "memory": "engram memories list",
    "document": "engram documents list",
    "organization": "engram orgs list",
    "key": "engram keys list",
    "model": "engram models list",
}


def exit_status(error: EngramError) -> int:
    """Return the status with which a command ends after `error`."""
    return MISTAKEN if isinstance(error, MISTAKES) else FAILED


def describe(error: EngramError, *, store: str | None = None) -> str:
    """Return an error as one line: its code, what happened, and a remedy if there is one."""
    line = f"error: {error.code}: {error}"
    if isinstance(error, NotFoundError) and error.kind in _LISTINGS:
        line += f"; `{_LISTINGS[error.kind]}` shows what there is"
    if isinstance(error, StorageError):
        # Other transports keep the cause to themselves; here the store's owner reads it.
        facts = [f"store: {store}"] if store else []
        facts += [f"cause: {error.__cause__}"] if error.__cause__ else []
        line += f" ({', '.join(facts)})" if facts else ""
    return visible_line(line)


def fail(error: EngramError, *, store: str | None, debug: bool) -> SystemExit:
    """Report `error` on stderr and return the exit that ends the command."""
    if debug:
        traceback.print_exception(error)
    print(describe(error, store=store), file=sys.stderr)
    return SystemExit(exit_status(error))

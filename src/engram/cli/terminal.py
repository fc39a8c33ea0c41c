"""Where a command writes: this process's terminal, or that of a client whose command the engine runs.

The engine runs commands of several clients at once, so nothing here replaces `sys.stdout`: each command
finds its own streams in its context.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TextIO

from engram import settings


class DeclinedError(Exception):
    """The engine cannot run this command for its client, which has to run it itself."""


class Terminal(NamedTuple):
    """The streams of a client, and what is known of its terminal."""

    stdout: TextIO
    stderr: TextIO
    columns: int
    allows_color: bool


_CLIENT: ContextVar[Terminal | None] = ContextVar("client", default=None)


@contextmanager
def writing_to(client: Terminal) -> Generator[None]:
    """Let everything that the block writes go to a client's terminal."""
    token = _CLIENT.set(client)
    try:
        yield
    finally:
        _CLIENT.reset(token)


def stdout() -> TextIO:
    """Return the stream of the answer."""
    client = _CLIENT.get()
    return sys.stdout if client is None else client.stdout


def stderr() -> TextIO:
    """Return the stream of notices and errors."""
    client = _CLIENT.get()
    return sys.stderr if client is None else client.stderr


def stdin() -> TextIO:
    """Return the input.

    Raises:
        DeclinedError: this is the engine, which cannot read its client's input.
    """
    if _CLIENT.get() is not None:
        raise DeclinedError("it reads its input")
    return sys.stdin


def columns() -> int:
    """Return the width of the terminal."""
    client = _CLIENT.get()
    return settings.terminal_columns() if client is None else client.columns


def allows_color() -> bool:
    """Return True if the user has not turned colours off."""
    client = _CLIENT.get()
    return settings.allows_color() if client is None else client.allows_color


def is_colored(stream: TextIO) -> bool:
    """Return True if a stream shows colours."""
    return stream.isatty() and allows_color()

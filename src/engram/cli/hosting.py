"""Runs commands of local clients inside the engine, where everything is loaded already."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING, Any

from engram.cli.app import run_command
from engram.cli.invocation import hosted_by
from engram.cli.terminal import DeclinedError, Terminal, writing_to
from engram.cli.thin import is_hosted
from engram.engine.commands import STDERR, STDOUT, Outcome, Part

if TYPE_CHECKING:
    from engram.engine.commands import CommandCall, Stream
    from engram.engine.server import Host

logger = logging.getLogger(__name__)


def run_for_client(call: CommandCall, host: Host) -> Outcome | None:
    """Run a command as its client would; return None if the client has to run it itself."""
    if not is_hosted(call.arguments):
        return None
    parts = list[Part]()
    client = Terminal(
        stdout=_open(parts, STDOUT, call.stdout),
        stderr=_open(parts, STDERR, call.stderr),
        columns=call.columns,
        allows_color=call.allows_color,
    )
    try:
        with writing_to(client), hosted_by(host, call):
            status = run_command(call.arguments)
    except DeclinedError:
        return None
    except Exception:
        logger.exception("a command failed")
        return None  # The client fails in the same way, and shows where.
    return Outcome(status=status, parts=tuple(parts))


def _open(parts: list[Part], descriptor: int, stream: Stream) -> io.TextIOWrapper:
    """Return a text stream like the client's, whose bytes are appended to `parts`."""
    kept = _Kept(parts, descriptor, is_terminal=stream.is_terminal)
    return io.TextIOWrapper(kept, stream.encoding, stream.errors, write_through=True)


class _Kept(io.BufferedIOBase):
    """Keeps what is written to a stream of a client."""

    name = "client"

    def __init__(self, parts: list[Part], descriptor: int, *, is_terminal: bool) -> None:
        self._parts = parts
        self._descriptor = descriptor
        self._is_terminal = is_terminal

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, data: Any, /) -> int:
        written = bytes(data)
        self._parts.append((self._descriptor, written))
        return len(written)

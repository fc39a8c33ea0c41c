"""Commands that a terminal lets the engine run: what it sends, and how it reads what comes back.

The engine keeps a command's output until it has ended, and sends it at once. So an engine that dies
before has shown nothing, and the client can run the same command itself, unless it was told that the
command began to write.

Client and engine say in turn: what to run; `{"writes": true}` before anything is changed; then either
`{"declined": …}`, or a line with the exit status and the lengths of the parts that follow it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from typing import Any, BinaryIO

import msgspec

from engram.bodies.lines import parsed_object
from engram.model.value import Value

HELLO = {"command": True}
WRITES = {"writes": True}
STDOUT, STDERR = 1, 2
Part = tuple[int, bytes]
"""A file descriptor of the client, and what is written there."""


class Stream(Value):
    """An output stream of the client."""

    is_terminal: bool
    encoding: str
    errors: str


class CommandCall(Value):
    """A command, and what its output depends on."""

    arguments: tuple[str, ...]
    home: str | None
    """The directory that the client took from the arguments."""
    place: str
    """The store's directory as the client shows it."""
    columns: int
    allows_color: bool
    stdout: Stream
    stderr: Stream


class Outcome(Value):
    """How a command ended, and what it wrote, in its order."""

    status: int
    parts: tuple[Part, ...] = ()


class LostError(Exception):
    """The engine ended or failed in the middle of a command that changes something."""


def run_in_engine(link: socket.socket, call: CommandCall) -> Outcome | None:
    """Run a command in the engine and return how it ended.

    None means that the engine declined, or ended before it changed anything: the caller runs it.

    Raises:
        LostError: the engine ended or failed after it began to write.
    """
    try:
        sent = msgspec.json.encode(call) + b"\n"
    except UnicodeEncodeError:
        link.close()
        return None  # An argument is not text: the parser says so.
    has_begun = False
    with link, link.makefile("rb") as answer:
        try:
            link.sendall(sent)
            while line := answer.readline():
                said = parsed_object(line)
                if "status" in said:
                    return Outcome(status=said["status"], parts=_read_parts(answer, said["parts"]))
                if "writes" not in said:
                    break
                has_begun = True
        except OSError:
            return _lose(has_begun=has_begun)
    return _lose(has_begun=has_begun)


def _lose(*, has_begun: bool) -> None:
    if has_begun:
        raise LostError


def _read_parts(answer: BinaryIO, sizes: Sequence[tuple[int, int]]) -> tuple[Part, ...]:
    """Return the parts of the output.

    Raises:
        OSError: the engine ended before it sent them all.
    """
    parts = tuple((descriptor, answer.read(size)) for descriptor, size in sizes)
    if any(len(data) != size for (_, data), (_, size) in zip(parts, sizes, strict=True)):
        raise ConnectionAbortedError("the engine ended")
    return parts


def stream_of(descriptor: int, stream: Any) -> Stream:
    """Return what a command must know of an open stream."""
    return Stream(is_terminal=os.isatty(descriptor), encoding=stream.encoding, errors=stream.errors)


def encode_outcome(outcome: Outcome | None) -> bytes:
    """Return an outcome as it is sent; None means that the command was declined."""
    if outcome is None:
        return b'{"declined": true}\n'
    sizes = [(descriptor, len(data)) for descriptor, data in outcome.parts]
    head = json.dumps({"status": outcome.status, "parts": sizes}).encode()
    return b"".join([head, b"\n", *(data for _, data in outcome.parts)])

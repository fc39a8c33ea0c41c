"""Ask the engine from a hook: within a deadline, and without settings."""

from __future__ import annotations

import json
import os
import socket
import time

from engram import limits
from engram.hooks.places import pointer_to_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PROTOCOL = 1
RECEIVED = b"received\n"
"""What tells the engine that its answer was waited for."""


def ask(home: str, call: Mapping[str, Any], *, deadline: float) -> str:
    """Return the context that the engine has for an event; empty if it has none in time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        try:
            link.settimeout(_left_s(deadline))
            # The pointer's own path may be too long for a socket's address; where it leads is not.
            link.connect(os.readlink(pointer_to_engine(home)))
            link.sendall(_line({"engine": PROTOCOL, "hook": True}) + _line(call))
            answer = _second_line(link, deadline)
            if not answer:
                return ""
            link.sendall(RECEIVED)
        except OSError:
            return ""
    return str(json.loads(answer).get("context", ""))


def _second_line(link: socket.socket, deadline: float) -> bytes:
    """Return the line after the engine's introduction; empty if it ends before or takes too long."""
    data = b""
    while data.count(b"\n") < 2:
        link.settimeout(_left_s(deadline))
        piece = link.recv(65_536)
        data += piece
        if not piece or len(data) > limits.HOOK_INPUT_BYTES_MAX:
            return b""
    return data.split(b"\n")[1]


def _left_s(deadline: float) -> float:
    # Zero would mean not to wait at all, and a late hook still asks whether an engine listens.
    return max(deadline - time.monotonic(), 0.001)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"

"""Answers that are the same in every store, from files that the server's own answers were written to.

There is a file for each era of the protocol. `python -m tools.greetings` writes them, and a test
compares them with what the server says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from engram.bodies.lines import as_object

FILES = Path(__file__).with_name("greetings")
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
HANDSHAKE = "initialize"
_APPEND = "append_messages"
_KEY_BYTES = 16
"""As many as a UUID has: two appends never get the same key."""

Message = Mapping[str, Any]


class Greeting:
    """Answers the first questions of one client, which sees these toolsets."""

    def __init__(self, toolsets: Iterable[str]) -> None:
        self._toolsets = frozenset(toolsets)
        self.agreed: str | None = None
        """The version of the handshake; messages of the later era carry their own."""

    def answer(self, request: Message) -> bytes | None:
        """Return the answer to a request on one line, or None if only a server can give it."""
        parameters = as_object(request.get("params"))
        if "cursor" in parameters:
            return None
        result = self._result(request.get("method"), parameters)
        if result is None:
            return None
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        return json.dumps(answer, separators=(",", ":")).encode()

    def _result(self, method: object, parameters: Message) -> Message | None:
        if method == HANDSHAKE:
            return self._agree(parameters.get("protocolVersion"))
        era = self._era(parameters)
        result = era and era["results"].get(method)
        if era and result and method == "tools/list":
            return {**result, "tools": [tool for tool in result["tools"] if self._shows(era, tool)]}
        return result

    def _agree(self, asked: object) -> Message | None:
        if not isinstance(asked, str):
            return None
        era = _load("handshake")
        # As the protocol wants it, an unknown version is answered with the newest known one.
        self.agreed = asked if asked in era["versions"] else max(era["versions"])
        return {**era["results"][HANDSHAKE], "protocolVersion": self.agreed}

    def _era(self, parameters: Message) -> Message | None:
        own = as_object(parameters.get("_meta")).get(VERSION_KEY)
        if own is None:
            return _load("handshake") if self.agreed else None
        later = _load("later")
        return later if own in later["versions"] else None

    def _shows(self, era: Message, tool: Message) -> bool:
        return era["toolsets"][tool["name"]] in self._toolsets


def is_repeatable(message: Message) -> bool:
    """Return True if a request may be sent to a second engine when the first one ended.

    Everything but a call only reads. A call may be repeated if its tool only reads, if a second time
    changes nothing, or if the caller named it with a key.
    """
    if message.get("method") != "tools/call":
        return True
    call = as_object(message.get("params"))
    is_named = bool(as_object(call.get("arguments")).get("idempotency_key"))
    return is_named or call.get("name") in repeatable_tools()


def with_key(message: Message) -> bytes | None:
    """Return an append with a key of its own, which may be repeated; None if it cannot get one."""
    call = as_object(message.get("params"))
    arguments = as_object(call.get("arguments"))
    is_append = message.get("method") == "tools/call" and call.get("name") == _APPEND
    if not is_append or not arguments or arguments.get("idempotency_key") is not None:
        return None
    named = {**arguments, "idempotency_key": f"bridge-{os.urandom(_KEY_BYTES).hex()}"}
    try:
        return json.dumps(
            {**message, "params": {**call, "arguments": named}}, allow_nan=False
        ).encode()
    except ValueError:  # a number that JSON cannot hold: the engine says so
        return None


@cache
def repeatable_tools() -> frozenset[str]:
    """Return the names of the tools that may be called twice."""
    return frozenset(_load("handshake")["repeatable"])


@cache
def _load(era: str) -> Message:
    return json.loads((FILES / f"{era}.json").read_bytes())

"""Write what the server answers first, for each era of the protocol, to the files of the bridge.

Run it when a tool, its description or the version of Engram changes: `python -m tools.greetings`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from engram.bodies.lines import LineTooLongError
from engram.engine.greeting import FILES, HANDSHAKE, VERSION_KEY
from engram.mcp.stdio import Wire, serve_wire
from engram.mcp.tools import TOOLS
from engram.model.access import TOOLSETS, Toolset
from engram.settings import load_settings
from engram.wiring import open_service

VERSIONS = {
    "handshake": ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"),
    "later": ("2026-07-28",),
}
"""The versions of each era; within an era only the handshake names the version."""

LISTS = ("tools/list", "prompts/list", "resources/templates/list")
Message = dict[str, Any]


async def greetings() -> dict[str, Message]:
    """Return the content of the file of each era."""
    return {
        era: {
            "versions": list(versions),
            "results": await results_of(versions[-1], TOOLSETS),
            "toolsets": {tool.name: tool.toolset for tool in TOOLS},
            "repeatable": [tool.name for tool in TOOLS if is_repeatable(tool.annotations)],
        }
        for era, versions in VERSIONS.items()
    }


def is_repeatable(annotations: dict[str, bool]) -> bool:
    """Return True if a second call of a tool changes nothing more."""
    return annotations.get("readOnlyHint", False) or annotations.get("idempotentHint", False)


async def results_of(version: str, toolsets: tuple[Toolset, ...]) -> dict[str, Message]:
    """Return what a server says to a client of this version that sees these toolsets."""
    requests = requests_of(version)
    answers = await ask(list(requests.values()), toolsets)
    return {method: answers[method] for method in requests if method in answers}


def requests_of(version: str) -> dict[str, Message]:
    """Return the requests whose answers are the same in every store, by their method."""
    who = {"name": "greetings", "version": "1"}
    if version in VERSIONS["handshake"]:
        first = {"protocolVersion": version, "capabilities": {}, "clientInfo": who}
        parameters = {HANDSHAKE: first} | {method: Message() for method in (*LISTS, "ping")}
    else:
        prefix = VERSION_KEY.rpartition("/")[0]
        meta = {
            VERSION_KEY: version,
            f"{prefix}/clientCapabilities": {},
            f"{prefix}/clientInfo": who,
        }
        parameters = {method: {"_meta": meta} for method in ("server/discover", *LISTS)}
    return {
        method: {"jsonrpc": "2.0", "id": method, "method": method, "params": given}
        for method, given in parameters.items()
    }


async def ask(requests: list[Message], toolsets: tuple[Toolset, ...]) -> dict[str, Message]:
    """Return the results of requests to a server on an empty store, by their ids."""
    answers = list[bytes]()

    async def lines() -> AsyncIterator[bytes | LineTooLongError]:
        for request in requests:
            yield json.dumps(request).encode()

    with tempfile.TemporaryDirectory() as home:
        settings = load_settings({"home": Path(home), "embedder": "none"}, environment={})
        async with open_service(settings) as service:
            await serve_wire(service, Wire(lines(), answers.append), toolsets=toolsets)
    messages = [json.loads(line) for line in answers]
    return {message["id"]: message["result"] for message in messages if "result" in message}


def main() -> int:
    """Return the exit status."""
    FILES.mkdir(exist_ok=True)
    for era, content in asyncio.run(greetings()).items():
        (FILES / f"{era}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

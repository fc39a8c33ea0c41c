"""Servers as processes of their own, and their clients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx
import orjson

from engram.settings import load_settings
from tests.cli.commands import inherited_environment

START_S = 60.0
"""Far longer than a server takes on a machine that runs other tests."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running `engram serve`."""

    url: str
    key: str | None
    """The first key, if a start with this directory made it."""
    degraded: tuple[str, ...]
    """What it said at its start that searches have to do without."""
    log: IO[bytes]

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        """Return a client of the server with a key, or with the first."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=START_S)

    def wait_for(self, *lines: str) -> None:
        """Return when the server has logged all of this; its end is a failure."""
        missing = set(lines)
        for logged in self.log:
            missing -= {line for line in missing if line in logged.decode()}
            if not missing:
                return
        raise AssertionError(f"the server ended before it said {missing}")


@contextmanager
def serve(home: Path, *, prefix: Sequence[str] = (), **settings: object) -> Generator[Server]:
    """Run a server on a free port until the block ends; `prefix` is a command that runs it."""
    chosen = {"home": home, "port": 0, "rate_limit": 0, "model_dir": model_dir(), **settings}
    variables = {f"ENGRAM_{name.upper()}": str(value) for name, value in chosen.items()}
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "engram", "serve", "--json"],
        env={**inherited_environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            started = _said(process.stdout)
            yield Server(
                started["url"],
                _first_key(started["api_key_file"]),
                tuple(started["degraded"]),
                process.stderr,
            )
        finally:
            process.kill()


def _first_key(file: str | None) -> str | None:
    return None if file is None else Path(file).read_text().strip()


def model_dir() -> Path:
    """Return where `make` has put the real models."""
    return load_settings().model_dir


def _said(output: IO[bytes]) -> Any:
    """Return the JSON object that a server prints before it serves."""
    text = b""
    for line in output:
        text += line
        if line == b"}\n":
            return orjson.loads(text)
    raise AssertionError("the server ended without a word")


async def append(client: httpx.AsyncClient, *contents: str) -> list[str]:
    """Append messages to the default conversation; return their ids."""
    messages = [{"role": "user", "content": content} for content in contents]
    answer = await client.post("/api/v1/messages", json={"messages": messages})
    return answer.raise_for_status().json()["message_ids"]


async def search(client: httpx.AsyncClient, query: str, **request: Any) -> dict[str, Any]:
    """Return the answer to a question, explained."""
    body = {"query": query, "explain": True, **request}
    answer = await client.post("/api/v1/search", json=body)
    return answer.raise_for_status().json()


async def status(client: httpx.AsyncClient) -> dict[str, Any]:
    """Return what the organisation is told about itself."""
    return (await client.get("/api/v1/status")).raise_for_status().json()


def found(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of an answer, the best first."""
    messages = [message for result in answer["results"] for message in result["messages"]]
    return sorted(messages, key=lambda message: -message["score_breakdown"]["order"])

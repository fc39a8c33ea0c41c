"""Memory that a server has in use: idle, with its models, and with the vectors of a large store."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure, allowed
from bench.planting import plant_store
from bench.search import queries
from bench.texts import chat
from tools.server import Server, running_server

MB_IDLE = 120
MB_MODELS = 300
MB_LARGE = 450
LARGE = 100_000
"""The limit is for so many messages."""

INDEXED = 200
INDEXING_TIMEOUT_S = 300


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of memory."""
    return [*_small_figures(), _large_figure(10_000 if quick else LARGE)]


def _small_figures() -> list[Figure]:
    with running_server(LOG="error") as server:
        token = server.create_organization("bench")
        server.get("/api/v1/conversations", token=token)
        idle = _resident_mb(server)
        messages = [{"role": "user", "content": text} for text in chat(INDEXED)]
        server.post("/api/v1/messages", {"messages": messages}, token=token)
        _search(server, token)
        server.wait_until_indexed(token=token, timeout_s=INDEXING_TIMEOUT_S)
        models = _resident_mb(server)
    return [
        allowed("server before the first embedding", idle, unit="MB", at_most=MB_IDLE),
        allowed("server with both models at work", models, unit="MB", at_most=MB_MODELS),
    ]


def _large_figure(messages: int) -> Figure:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        home = Path(directory)
        planted = asyncio.run(plant_store(home, messages=messages))
        with running_server(LOG="error", HOME=str(home)) as server:
            _search(server, planted.api_key)
            used = _resident_mb(server)
    return allowed(
        f"server with both models and {messages:,} messages with planted vectors",
        used,
        unit="MB",
        at_most=MB_LARGE,
        is_bound=messages == LARGE,
    )


def _search(server: Server, token: str) -> None:
    for query in queries():
        answer = server.post("/api/v1/search", {"query": query}, token=token)
        assert not answer["degraded"], answer["degraded"]


def _resident_mb(server: Server) -> float:
    """Return what of a process is in memory, files that it maps included."""
    command = ["ps", "-o", "rss=", "-p", str(server.pid)]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return int(shown) * 1024 / 1_000_000

"""Memory in use: by a server, idle, with its models and with the vectors of a large store; and by the
engine and its clients together."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from bench.figures import Figure, allowed
from bench.planting import plant_store
from bench.search import queries
from bench.start import McpClient, engram_environment
from bench.texts import chat
from tools.server import Server, running_server

MB_IDLE = 120
MB_MODELS = 300
MB_LARGE = 450
MB_CLIENTS = 600
CLIENTS = 10
LARGE = 100_000
"""The limit is for so many messages."""

INDEXED = 200
INDEXING_TIMEOUT_S = 300


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of memory."""
    return [*_small_figures(), _large_figure(10_000 if quick else LARGE), *_clients_figures()]


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


def _clients_figures() -> list[Figure]:
    """Return what clients and the engine take that they share, after each has searched."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory, ExitStack() as stack:
        home = Path(directory) / "store"
        stack.callback(_engram, home, "engine", "stop")
        clients = [stack.enter_context(McpClient(home)) for _ in range(CLIENTS)]
        messages = [{"role": "user", "content": text} for text in chat(INDEXED)]
        clients[0].call("append_messages", messages=messages)
        _wait_until_indexed(home)
        for client, query in zip(clients, queries(), strict=False):
            client.call("search", query=query)
        engines = [each["pid"] for each in _engram(home, "engine", "status")["engines"]]
        assert len(engines) == 1, engines
        used = [_memory(pid) for pid in (*engines, *(client.pid for client in clients))]
    resident, proportional = (sum(sizes) / 1_000_000 for sizes in zip(*used, strict=True))
    name = f"{CLIENTS} clients and their engine with both models at work"
    return [
        allowed(f"{name}, resident", resident, unit="MB", at_most=MB_CLIENTS),
        allowed(f"{name}, shared pages counted once", proportional, unit="MB", at_most=MB_CLIENTS),
    ]


def _wait_until_indexed(home: Path) -> None:
    deadline = time.monotonic() + INDEXING_TIMEOUT_S
    while _engram(home, "status")["pending"]:
        assert time.monotonic() < deadline, "the messages were not indexed"
        time.sleep(0.5)


def _engram(home: Path, *command: str) -> Any:
    """Return the JSON that a command prints."""
    ended = subprocess.run(
        [sys.executable, "-m", "engram", *command, "--json"],
        env=engram_environment(home),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(ended.stdout)


def _memory(pid: int) -> tuple[int, int]:
    """Return the resident and the proportional set size of a process."""
    found = psutil.Process(pid).memory_full_info()
    return found.rss, found.pss


def _search(server: Server, token: str) -> None:
    for query in queries():
        answer = server.post("/api/v1/search", {"query": query}, token=token)
        assert not answer["degraded"], answer["degraded"]


def _resident_mb(server: Server) -> float:
    """Return what of a process is in memory, files that it maps included."""
    command = ["ps", "-o", "rss=", "-p", str(server.pid)]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return int(shown) * 1024 / 1_000_000

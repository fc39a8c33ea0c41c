"""How long Engram takes from its start to its first answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.planting import PlantedStore, plant_store
from bench.timing import Spent, median_cpu, median_wall
from tools.server import running_server

MESSAGES = 300
QUERY = "how to read the lines of a file"
INITIALIZE: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SEARCH: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "search", "arguments": {"query": QUERY}},
}
INITIALIZE_BOUND = 1.3
SEARCH_BOUND = 1.5
IMPORT = 'python -c "import mcp.server"'


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of the start, from rounds in which all take turns."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        local, served = Path(directory) / "local", Path(directory) / "served"
        asyncio.run(plant_store(local, messages=MESSAGES, is_local=True))
        planted = asyncio.run(plant_store(served, messages=MESSAGES))
        search_over_stdio(local)  # What the first start alone has to do is not measured.
        rounds = [
            (
                answer_initialize(local),
                search_over_stdio(local),
                search_over_http(served, planted),
                import_sdk(),
            )
            for _ in range(3 if quick else 9)
        ]
    initialize, stdio, http, floor = zip(*rounds, strict=True)
    found = f"to the first search answer over {MESSAGES} messages"
    return [
        _figure("engram mcp to the answer of initialize", initialize, floor, INITIALIZE_BOUND),
        _figure(f"engram mcp {found}", stdio, floor, SEARCH_BOUND),
        _wall_figure(f"engram mcp {found}", stdio, floor),
        Figure(
            name=f"engram serve {found}, cold",
            value=statistics.median(http),
            unit="s",
            floor=median_wall(floor),
            floor_name=IMPORT,
            direction="at most",
            bound=None,
        ),
    ]


def answer_initialize(home: Path) -> Spent:
    """Return the time of a stdio server that is stopped right after its first answer."""
    return _until_killed(_mcp(home), until=_initialize)


def search_over_stdio(home: Path) -> Spent:
    """Return the time of a stdio server that is stopped when it has answered a search."""

    def search(process: subprocess.Popen[bytes]) -> None:
        _initialize(process)
        _send(process, INITIALIZED)
        _send(process, SEARCH)
        answer = _receive(process)["result"]
        assert not answer.get("isError"), answer
        (content,) = answer["content"]
        assert content["text"].startswith("conv_"), answer
        assert "degraded" not in content["text"], answer

    return _until_killed(_mcp(home), until=search)


def search_over_http(home: Path, planted: PlantedStore) -> float:
    """Return the seconds from the start of a server to its answer of a search."""
    started = time.perf_counter()
    with running_server(LOG="error", HOME=str(home)) as server:
        answer = server.post("/api/v1/search", {"query": QUERY}, token=planted.api_key)
        seconds = time.perf_counter() - started
    assert answer["results"], answer
    assert not answer["degraded"], answer
    return seconds


def import_sdk() -> Spent:
    """Return the time of importing the MCP SDK's server."""

    def wait_for_end(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        process.stdout.read()

    command = [sys.executable, "-c", "import mcp.server"]
    return _until_killed(_start(command, dict(os.environ)), until=wait_for_end)


def _figure(name: str, own: Sequence[Spent], floor: Sequence[Spent], bound: float) -> Figure:
    return Figure(
        name=name,
        value=median_cpu(own),
        unit="CPU s",
        floor=median_cpu(floor),
        floor_name=IMPORT,
        direction="at most",
        bound=bound,
    )


def _wall_figure(name: str, own: Sequence[Spent], floor: Sequence[Spent]) -> Figure:
    return Figure(
        name=f"{name}, on the clock",
        value=median_wall(own),
        unit="s",
        floor=median_wall(floor),
        floor_name=IMPORT,
        direction="at most",
        bound=None,
    )


Start = Callable[[], "subprocess.Popen[bytes]"]


def _mcp(home: Path) -> Start:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")
    }
    return _start([sys.executable, "-m", "engram", "mcp"], {**inherited, "ENGRAM_HOME": str(home)})


def _start(command: Sequence[str], environment: Mapping[str, str]) -> Start:
    return lambda: subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _until_killed(start: Start, *, until: Callable[[subprocess.Popen[bytes]], None]) -> Spent:
    """Return the time of a process up to the moment `until` returns."""
    started = time.perf_counter()
    with start() as process:
        until(process)
        wall_s = time.perf_counter() - started
        # Not through Popen, which might reap the process itself.
        os.kill(process.pid, signal.SIGKILL)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return Spent(wall_s, usage.ru_utime + usage.ru_stime)


def _initialize(process: subprocess.Popen[bytes]) -> None:
    _send(process, INITIALIZE)
    answer = _receive(process)
    assert "result" in answer, answer


def _send(process: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())

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
from typing import Any, Self

from bench.figures import Figure
from bench.planting import PlantedStore, plant_store
from bench.timing import Spent, median_wall
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
TOOLS: Mapping[str, Any] = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
IMPORT = 'python -c "import mcp.server"'
PYTHON = "python -c pass"

GREETED_CPU_S = 0.25
"""What agents that give a server a second leave it on a busy machine."""
SEARCHED_CPU_S = GREETED_CPU_S + 0.3
COMMAND_CPU_S = 0.35


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of the start, from rounds in which all take turns."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        local, served = Path(directory) / "local", Path(directory) / "served"
        asyncio.run(plant_store(local, messages=MESSAGES, is_local=True))
        planted = asyncio.run(plant_store(served, messages=MESSAGES))
        try:
            search_over_stdio(local)  # What the first start alone has to do is not measured.
            run_command(local, "search", QUERY)
            rounds = [
                (
                    list_tools(local),
                    search_over_stdio(local),
                    run_command(local, "search", QUERY),
                    run_command(local, "--help"),
                    run_command(served, "--help"),
                    search_over_http(served, planted),
                    import_sdk(),
                    _run([sys.executable, "-c", "pass"], dict(os.environ)),
                )
                for _ in range(3 if quick else 9)
            ]
        finally:
            run_command(local, "engine", "stop")
    tools, stdio, search, hosted_help, own_help, http, sdk, python = zip(*rounds, strict=True)
    found = f"to the first search answer over {MESSAGES} messages"
    return [
        _figure("engram mcp to initialize and tools/list", tools, python, GREETED_CPU_S),
        _figure(f"engram mcp {found}, with an engine", stdio, python, SEARCHED_CPU_S),
        _figure("engram search, with an engine", search, python, COMMAND_CPU_S),
        _figure("engram --help, with an engine", hosted_help, python, COMMAND_CPU_S),
        _figure("engram --help, alone", own_help, python, None),
        _wall_figure(f"engram mcp {found}", stdio, sdk),
        Figure(
            name=f"engram serve {found}, cold",
            value=statistics.median(http),
            unit="s",
            floor=median_wall(sdk),
            floor_name=IMPORT,
            direction="at most",
            bound=None,
        ),
    ]


def list_tools(home: Path) -> Spent:
    """Return the time of a stdio server that is stopped when its tools are known."""

    def ask(process: subprocess.Popen[bytes]) -> None:
        _initialize(process)
        _send(process, INITIALIZED)
        _send(process, TOOLS)
        answer = _receive(process)
        assert answer["result"]["tools"], answer

    return _until_killed(_mcp(home), until=ask)


def run_command(home: Path, *arguments: str) -> Spent:
    """Return the time of a command from its start to its end, in its own process."""
    return _run([sys.executable, "-m", "engram", *arguments], engram_environment(home))


def search_over_stdio(home: Path) -> Spent:
    """Return the time of a stdio server that is stopped when it has answered a search."""

    def search(process: subprocess.Popen[bytes]) -> None:
        _initialize(process)
        _send(process, INITIALIZED)
        _send(process, SEARCH)
        answer = _receive(process)["result"]
        assert not answer.get("isError"), answer
        (content,) = answer["content"]
        assert " user: " in content["text"], answer  # Each line found begins with its speaker.
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
    return _run([sys.executable, "-c", "import mcp.server"], dict(os.environ))


def _run(command: Sequence[str], environment: Mapping[str, str]) -> Spent:
    """Return the time of a process that ends by itself."""
    started = time.perf_counter()
    with _start(command, environment, stderr=subprocess.DEVNULL)() as process:
        assert process.stdout is not None
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Spent(time.perf_counter() - started, usage.ru_utime + usage.ru_stime)


def _figure(
    name: str, own: Sequence[Spent], floor: Sequence[Spent], at_most: float | None
) -> Figure:
    """Return the CPU seconds of a client's process in the round that was disturbed least.

    The bound is one of seconds; a figure has one of the ratio to its floor.
    """
    floor_s = min(spent.cpu_s for spent in floor)
    return Figure(
        name=name,
        value=min(spent.cpu_s for spent in own),
        unit="CPU s",
        floor=floor_s,
        floor_name=PYTHON,
        direction="at most",
        bound=at_most and round(at_most / floor_s, 1),
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


class McpClient:
    """A client's `engram mcp` process, after its handshake."""

    def __init__(self, home: Path) -> None:
        self._process = _mcp(home)()
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        _initialize(self._process)
        _send(self._process, INITIALIZED)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a tool that must succeed."""
        params = {"name": tool, "arguments": arguments}
        _send(self._process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        result = _receive(self._process)["result"]
        assert not result.get("isError"), result
        return result


def engram_environment(home: Path) -> dict[str, str]:
    """Return an environment with the directory of a store and no other setting."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")
    }
    return {**inherited, "ENGRAM_HOME": str(home)}


def _mcp(home: Path) -> Start:
    return _start([sys.executable, "-m", "engram", "mcp"], engram_environment(home))


def _start(
    command: Sequence[str], environment: Mapping[str, str], *, stderr: int | None = None
) -> Start:
    return lambda: subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
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

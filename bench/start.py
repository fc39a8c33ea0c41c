"""How much processor time `engram mcp` takes until it has answered `initialize`."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from bench.figures import Figure

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
BOUND = 1.3


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figure of the start."""
    rounds = 3 if quick else 9
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as home:
        answer_initialize(
            home
        )  # The first start makes the store; a client starts on an existing one.
        pairs = [(answer_initialize(home), import_sdk()) for _ in range(rounds)]
    return [
        Figure(
            name="engram mcp to the answer of initialize",
            value=statistics.median(own for own, _ in pairs),
            unit="CPU s",
            floor=statistics.median(floor for _, floor in pairs),
            floor_name='python -c "import mcp.server"',
            direction="at most",
            bound=BOUND,
        )
    ]


def answer_initialize(home: str) -> float:
    """Return the processor seconds of a server that is stopped right after its first answer."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")
    }

    def wait_for_answer(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert "result" in answer, answer

    command = [sys.executable, "-m", "engram", "mcp"]
    return _processor_seconds(command, inherited | {"ENGRAM_HOME": home}, until=wait_for_answer)


def import_sdk() -> float:
    """Return the processor seconds of importing the MCP SDK's server."""

    def wait_for_end(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        process.stdout.read()

    command = [sys.executable, "-c", "import mcp.server"]
    return _processor_seconds(command, dict(os.environ), until=wait_for_end)


def _processor_seconds(
    command: list[str],
    environment: dict[str, str],
    *,
    until: Callable[[subprocess.Popen[bytes]], None],
) -> float:
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        until(process)
        os.kill(
            process.pid, signal.SIGKILL
        )  # Not through Popen, which might reap the process itself.
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return usage.ru_utime + usage.ru_stime

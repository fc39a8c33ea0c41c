"""Processes of Engram on one store, each with a clock of its own, that are killed and started again."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson

from tests.cli.commands import inherited_environment
from tests.mcp.connecting import INITIALIZE

PATIENCE_S = 60.0
"""How long a client waits for an answer before it calls the outcome unknown."""

_CLOCK = Path(__file__).parent / "clock"
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class DiedError(Exception):
    """A process ended or went silent before it answered."""


class Process:
    """A command of Engram that can be started any number of times."""

    def __init__(
        self, name: str, arguments: Sequence[str], settings: Mapping[str, str], place: Path
    ) -> None:
        self.name = name
        self._arguments = arguments
        self._offset = place / f"{name}.clock"
        self._log = place / f"{name}.log"
        self._settings = settings
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self.has_answered = False
        """Whether it has answered a client since it was started."""
        self.shift_clock(0)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended since."""
        return self._running is not None and self._running.poll() is None

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the command."""
        own = {f"ENGRAM_{name}": value for name, value in self._settings.items()}
        clock = {"PYTHONPATH": str(_CLOCK), "TORTURE_CLOCK": str(self._offset)}
        with self._lock, self._log.open("ab") as log:
            self.has_answered = False
            self._running = subprocess.Popen(
                [sys.executable, "-m", "engram", *self._arguments, *arguments],
                env=inherited_environment() | own | clock,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if self._is_asked_by_pipe else log,
                stderr=log,
            )
            return self._running

    @property
    def _is_asked_by_pipe(self) -> bool:
        return "serve" not in self._arguments

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal, if the process still runs; return whether it did."""
        with self._lock:
            if self._running is None or not self.is_running:
                return False
            self._running.send_signal(number)
            return True

    def kill(self) -> bool:
        """End the process at once; return whether it was running."""
        was_running = self.signal(signal.SIGKILL)
        if was_running and self._running is not None:
            self._running.wait(PATIENCE_S)
        return was_running

    def stop(self) -> None:
        """End the process as its user would, whatever state it is in."""
        self.signal(signal.SIGCONT)
        if self._running is not None:
            self.signal(signal.SIGTERM)
            try:
                self._running.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def shift_clock(self, seconds: float) -> None:
        """Have the process believe in another time from now on."""
        waiting = self._offset.with_suffix(".next")
        waiting.write_text(str(seconds))
        waiting.replace(self._offset)

    def log_end(self) -> str:
        """Return the last lines that it logged."""
        return self._log.read_text(errors="replace")[-2_000:] if self._log.exists() else ""


class Server(Process):
    """`engram serve` on a port that stays the same."""

    def __init__(self, name: str, settings: Mapping[str, str], place: Path) -> None:
        self.port = _free_port()
        super().__init__(name, ["serve"], {**settings, "PORT": str(self.port)}, place)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        """Return whether the server answers and can read its store."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=PATIENCE_S).is_success
        except httpx.HTTPError:
            return False


class Session(Process):
    """`engram mcp`, asked over its pipes by one client."""

    def __init__(self, name: str, settings: Mapping[str, str], place: Path) -> None:
        super().__init__(name, ["mcp"], settings, place)
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._rest = b""

    def open(self) -> None:
        """Start the process and shake hands, if it does not run.

        Raises:
            DiedError: it does not answer.
        """
        if not self.is_running:
            self._rest = b""
            self._process = self.start()
            self._say(INITIALIZE)
            self._hear(INITIALIZE["id"])
            self._say(_INITIALIZED)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Return the result of a tool.

        Raises:
            DiedError: there is none, and nobody knows whether the call was carried out.
        """
        self._number += 1
        params = {"name": tool, "arguments": arguments}
        self._say({"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": params})
        return self._hear(self._number)

    def _say(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise DiedError
        try:
            self._process.stdin.write(orjson.dumps(message) + b"\n")
            self._process.stdin.flush()
        except OSError as exc:
            raise DiedError from exc

    def _hear(self, number: int) -> Any:
        while True:
            answer = orjson.loads(self._line())
            if answer.get("id") == number:
                if "error" in answer:
                    # The bridge's own: its engine ended during the call, or none could be had.
                    raise DiedError(answer["error"]["message"])
                return answer["result"]

    def _line(self) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise DiedError
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            ready, _, _ = select.select([pipe], [], [], PATIENCE_S)
            read = os.read(pipe, 1 << 16) if ready else b""
            if not read:
                self.kill()
                raise DiedError
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line


class Command(Process):
    """A command that runs once for each call."""

    def __init__(self, name: str, settings: Mapping[str, str], place: Path) -> None:
        super().__init__(name, [], settings, place)
        self._errors = place / f"{name}.log"

    def run(
        self, *arguments: str, given: bytes = b"", patience_s: float = PATIENCE_S
    ) -> tuple[int, bytes, str]:
        """Return the exit code, what was printed, and what was said about errors.

        Raises:
            DiedError: it was killed, or did not end.
        """
        logged = self._errors.stat().st_size if self._errors.exists() else 0
        process = self.start(*arguments)
        try:
            printed, _ = process.communicate(given, timeout=patience_s)
        except subprocess.TimeoutExpired as exc:
            self.kill()
            raise DiedError from exc
        if process.returncode < 0:
            raise DiedError
        said = self._errors.read_bytes()[logged:].decode(errors="replace")
        return process.returncode, printed, said


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

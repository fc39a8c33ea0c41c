"""Clients and engines as processes, and what becomes of them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil

from engram.engine.address import Address, address_of
from engram.engine.launch import ask_engine
from engram.settings import Settings, load_settings
from tests.mcp.connecting import INITIALIZE, engram_environment

T = TypeVar("T")

PATIENCE_S = 120.0
IDLE = "2"
Message = dict[str, Any]


class Bridge:
    """A client's `engram mcp` process."""

    def __init__(self, home: Path, *, code: Path | None = None, **settings: str) -> None:
        """Start it, with the code of a directory in place of the installed one."""
        given = {"HOME": str(home), "EMBEDDER": "none", "ENGINE_IDLE": IDLE, **settings}
        imports = {"PYTHONPATH": str(code)} if code else {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engram", "mcp"],
            env=engram_environment(given) | imports,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._next = 1

    def ask(self, request: Message) -> Message:
        self.send(request)
        return self.receive()

    def receive(self) -> Message:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def send(self, request: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, tool: str, **arguments: Any) -> str:
        return self.result(tool, **arguments)["content"][0]["text"]

    def result(self, tool: str, **arguments: Any) -> Message:
        self._next += 1
        params = {"name": tool, "arguments": arguments}
        answer = self.ask(
            {"jsonrpc": "2.0", "id": self._next, "method": "tools/call", "params": params}
        )
        assert answer["id"] == self._next
        return answer["result"]

    def keep(self, text: str) -> str:
        return self.call("append_messages", messages=[{"role": "user", "content": text}])

    def end(self) -> str:
        """Close the input, and return what the process logged."""
        _, log = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, log
        return log.decode()


@contextmanager
def connected(home: Path, *, code: Path | None = None, **settings: str) -> Generator[Bridge]:
    """Yield a client after its handshake, which is killed if it does not answer."""
    bridge = Bridge(home, code=code, **settings)
    watchdog = threading.Timer(PATIENCE_S, bridge.process.kill)
    watchdog.start()
    try:
        bridge.ask(INITIALIZE)
        bridge.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield bridge
    finally:
        watchdog.cancel()
        bridge.process.kill()
        bridge.process.wait(PATIENCE_S)
        for stream in (bridge.process.stdin, bridge.process.stdout, bridge.process.stderr):
            assert stream is not None
            stream.close()


def settings_of(home: Path) -> Settings:
    """Return the settings of the clients on a store."""
    return load_settings({"home": home, "embedder": "none", "engine_idle": IDLE}, environment={})


def address(home: Path) -> Address:
    """Return where their engine listens."""
    return address_of(settings_of(home))


def engines_of(directory: Path) -> list[psutil.Process]:
    """Return the engines of the stores below a directory."""
    found = list[psutil.Process]()
    for process in psutil.process_iter():
        try:
            is_engine = process.cmdline()[-2:] == ["engine", "run"]
            is_below = process.environ().get("ENGRAM_HOME", "").startswith(str(directory))
            if is_engine and is_below and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue  # It ended, or is not ours to look at.
    return found


def wait_until(find: Callable[[], T]) -> T:
    """Return what is found as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def engine_besides(home: Path, ended: Collection[int]) -> int | None:
    """Return the process of the engine that runs, unless it was ended and still answers."""
    found = ask_engine(address(home))
    return found["pid"] if found and found["pid"] not in ended else None


def engine_process(home: Path) -> int:
    """Return the process of the engine that runs."""
    found = ask_engine(address(home))
    assert found is not None
    return found["pid"]


def engram(home: Path, *arguments: str) -> Any:
    """Return what a command prints as JSON."""
    given = {"HOME": str(home), "EMBEDDER": "none", "ENGINE_IDLE": "300"}
    ended = subprocess.run(
        [sys.executable, "-m", "engram", *arguments],
        env=engram_environment(given),
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return json.loads(ended.stdout)

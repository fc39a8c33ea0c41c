"""A throwaway Engram server on a free loopback port, for the scripts that need a running one."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server, its operator's token and its data directory."""

    port: int
    admin_token: str
    home: Path
    log: Path
    pid: int

    @property
    def url(self) -> str:
        """Return the address that paths are appended to."""
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, body: dict[str, Any], *, token: str) -> dict[str, Any]:
        """Return the answer to one JSON request."""
        return self._ask(path, json.dumps(body).encode(), token=token)

    def get(self, path: str, *, token: str) -> dict[str, Any]:
        """Return what is at a path."""
        return self._ask(path, None, token=token)

    def create_organization(self, name: str) -> str:
        """Return the API key of a new organisation."""
        made = self.post("/admin/organizations", {"name": name}, token=self.admin_token)
        return made["api_key"]

    def wait_until_indexed(self, *, token: str, timeout_s: float) -> None:
        """Return when every message of an organisation has its deep vectors."""
        deadline = time.monotonic() + timeout_s
        while self.get("/api/v1/status", token=token)["pending"]:
            if time.monotonic() > deadline:
                sys.exit(f"The messages were not indexed:\n{self.log.read_text(errors='replace')}")
            time.sleep(POLL_S)

    def _ask(self, path: str, body: bytes | None, *, token: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers)  # noqa: S310 our own loopback URL
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 as above
            return json.load(answer)


@contextmanager
def running_server(**settings: str) -> Generator[Server]:
    """Yield a server; `settings` are ENGRAM_ variables without the prefix.

    Its store is empty unless they name the directory of another.
    """
    with tempfile.TemporaryDirectory(prefix="engram-") as directory:
        port, token = _free_port(), secrets.token_urlsafe(24)
        own = {
            "HOME": str(Path(directory) / "store"),
            "PORT": str(port),
            "ADMIN_TOKEN": token,
            "RATE_LIMIT": "0",
            **settings,
        }
        log = Path(directory) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "engram", "serve"],
                env=_environment(own),
                stdout=output,
                stderr=output,
            )
        server = Server(
            port=port,
            admin_token=token,
            home=Path(own["HOME"]),
            log=log,
            pid=process.pid,
        )
        try:
            _wait_until_ready(server, process)
            yield server
        finally:
            _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _environment(settings: dict[str, str]) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")
    }
    return inherited | {f"ENGRAM_{name}": value for name, value in settings.items()}


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(server.url + "/readyz", timeout=5):  # noqa: S310 our own loopback URL
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(POLL_S)
    sys.exit(f"The server did not start:\n{server.log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

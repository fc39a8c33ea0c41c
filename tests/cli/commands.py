"""Two ways to call the command line on one store: in this process, and as a process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from typer.testing import CliRunner

from engram.cli.app import build_app, named_in

DEADLINE_S = 60.0
"""Far longer than any command takes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command printed, and how it ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The answer, for a command that succeeded with `--json`."""
        assert self.status == 0, self.stderr
        return orjson.loads(self.stdout)


class Engram:
    """The command line on one store, without an embedder unless a command is given one."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *arguments: str, stdin: str | bytes = "", **variables: str) -> Outcome:
        """Run a command in this process; `variables` are further ENGRAM_ settings."""
        result = CliRunner().invoke(
            build_app(only=named_in(arguments)),
            arguments,
            input=stdin,
            env=self._environment(variables),
            prog_name="engram",
        )
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    @contextmanager
    def start(self, *arguments: str, **variables: str) -> Generator[subprocess.Popen[bytes]]:
        """Start a command as a process; one that hangs is killed and fails its test."""
        with subprocess.Popen(
            [sys.executable, "-m", "engram", *arguments],
            env=self.environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            watchdog = threading.Timer(DEADLINE_S, process.kill)
            watchdog.start()
            try:
                yield process
            finally:
                watchdog.cancel()

    def process(self, *arguments: str, stdin: bytes = b"", **variables: str) -> Outcome:
        """Run a command as a process."""
        with self.start(*arguments, **variables) as process:
            stdout, stderr = process.communicate(stdin)
        return Outcome(process.returncode, stdout.decode(), stderr.decode())

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a process on the store."""
        return {**inherited_environment(), **self._environment(variables)}

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        own = {"ENGRAM_HOME": str(self.home), "ENGRAM_EMBEDDER": "none"}
        return own | {f"ENGRAM_{name.upper()}": value for name, value in variables.items()}


def inherited_environment() -> dict[str, str]:
    """Return this process's environment without settings of Engram."""
    environment = os.environ  # noqa: TID251 for the processes that tests start
    return {name: value for name, value in environment.items() if not name.startswith("ENGRAM_")}

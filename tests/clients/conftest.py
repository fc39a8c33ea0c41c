"""A machine of its own for each test: a user's directory, a project and a store."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Engram


class User(Engram):
    """A user with clients, who calls the command line in a project of theirs."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "store")
        self.directory = directory / "user"
        self.project = directory / "project"
        self.project.mkdir()
        self.directory.mkdir()

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        # Every process opens the store itself, so that none is left behind.
        return super()._environment({"engine_idle": "0", **variables})

    def shell(self, line: str) -> None:
        """Run a line as it is pasted into a shell of the user, in a directory that has nothing to do."""
        environment = {"HOME": str(self.directory), "PATH": "/usr/bin:/bin"}
        subprocess.run(["sh", "-c", line], cwd="/", check=True, env=environment)

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Return the content and the mode of every file of the user and the project."""
        return {
            str(path.relative_to(self.directory.parent)): (path.read_bytes(), path.stat().st_mode)
            for base in (self.directory, self.project)
            for path in base.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """Return a user without any client."""
    for name in os.environ:  # noqa: TID251 what the tests must not depend on
        if name.startswith(
            ("ENGRAM_", "XDG_", "CLAUDE_", "CODEX_", "GEMINI_", "OPENCODE_", "GOOSE_")
        ):
            monkeypatch.delenv(name)
    found = User(tmp_path)
    monkeypatch.setenv("HOME", str(found.directory))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("COPILOT_HOME", "")
    monkeypatch.chdir(found.project)
    return found

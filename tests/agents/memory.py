"""The store in the home of a coding agent's user, through the commands that a user has."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engram.hooks.spool import DRAINING, WAITING
from tests.agents.coding_agents import CodingAgent
from tests.agents.wires import Json
from tests.engine.processes import engines_of, wait_until

ENGRAM = str(Path(sys.executable).with_name("engram"))
STOP_S = 120


class Memory:
    """The default store of the user in whose home an agent works."""

    def __init__(self, agent: CodingAgent) -> None:
        self._agent = agent
        self._home = agent.home / ".local" / "share" / "engram"
        self._home.mkdir(parents=True)
        # Not in the environment, which agents do not pass on to everything that they start.
        (self._home / "engram.toml").write_text('embedder = "none"\n')

    def run(self, *arguments: str) -> str:
        """Return what a command prints."""
        ended = subprocess.run(
            [ENGRAM, *arguments],
            cwd=self._agent.directory,
            env={"HOME": str(self._agent.home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=STOP_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def ask(self, *arguments: str) -> Any:
        """Return what a command answers as JSON."""
        return json.loads(self.run(*arguments, "--json"))

    def connect(self) -> None:
        """Enter this store in the agent's configuration, with hooks."""
        self.run("connect", self._agent.client)

    def import_sessions(self) -> int:
        """Import all that the agent keeps, whatever was read before; return how much was new."""
        (report,) = self.ask("import", self._agent.source, "--reread")["sources"]
        assert report["read"] > 0
        assert not report["failed"]
        return report["stored"]

    def wait_for(self, *texts: str) -> None:
        """Return as soon as these are stored; fail if anything else is, or something twice."""
        messages = self.wait_for_messages(len(texts))
        assert sorted(each["content"] for each in messages) == sorted(texts)

    def wait_for_messages(self, count: int) -> Sequence[Json]:
        """Return all messages as soon as there are so many and nothing waits to be captured."""
        wait_until(lambda: self.ask("status")["messages"] >= count)
        waiting = [self._home / "hooks" / name for name in (WAITING, DRAINING)]
        wait_until(lambda: not any(path.exists() for path in waiting))
        return [message for each in self.conversations() for message in each["messages"]]

    def conversations(self) -> Sequence[Json]:
        """Return all conversations with their messages."""
        listed = self.ask("conversations", "list")["conversations"]
        return [self.ask("conversations", "show", each["id"]) for each in listed]

    def kill_engine(self) -> None:
        """Kill the engine, which an agent or its hooks have started, as soon as there is one."""
        wait_until(lambda: engines_of(self._home))
        for engine in engines_of(self._home):
            engine.kill()

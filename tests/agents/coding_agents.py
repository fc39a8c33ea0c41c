"""The coding agents themselves: installed from npm, set up for one test, and run a turn at a time.

Each has a home of its own, made-up keys and a model on this machine. Whatever an agent gives up on
after a while, such as a server that starts slowly, is given the time that a busy machine needs.
"""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agents.model_service import ModelService
from tests.agents.wires import SERVER, Shown, ToolCall
from tools.agents.programs import CLAUDE_CODE, CODEX, GEMINI_CLI
from tools.node import NODE_HOME

PATIENCE_S = 300
KEY = "made-up"
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """`engram mcp`, which the agent starts."""

    command: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServer:
    """A running server, and a key for it."""

    url: str
    key: str


McpServer = LocalServer | RemoteServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What came of one prompt."""

    answer: str
    """What the agent printed."""
    requests: Sequence[Shown]
    """What its model was shown, a request at a time."""


class CodingAgent(ABC):
    """An agent with a home directory and a model."""

    client: str
    """What `engram connect` calls it."""
    source: str
    """What `engram import` calls it."""

    def __init__(self, home: Path, model: ModelService) -> None:
        self.home = home
        self._model = model
        self.directory = home / "work"
        self.directory.mkdir(parents=True)

    @abstractmethod
    def configure(self) -> None:
        """Write the configuration of a user who has not heard of Engram."""

    @abstractmethod
    def connect(self, server: McpServer) -> None:
        """Write the configuration with which the agent finds its model and the server."""

    def turn(
        self,
        prompt: str,
        *calls: ToolCall,
        says: str = "ok",
        resumes: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Turn:
        """Run one prompt in a new session, or in the last one.

        The model makes these calls and says the last result, or what it is given to say; something may
        happen before it answers the first time.
        """
        self._model.begin_turn(calls, says=says, meanwhile=meanwhile)
        ended = subprocess.run(
            self._command(prompt, resumes=resumes),
            cwd=self.directory,
            env={**self._shared_environment(), **self._environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()
        return Turn(answer=self._answer(ended.stdout.decode()), requests=self._model.end_turn())

    @abstractmethod
    def _command(self, prompt: str, *, resumes: bool) -> Sequence[str | Path]: ...

    @abstractmethod
    def _environment(self) -> Mapping[str, str]: ...

    @abstractmethod
    def _answer(self, output: str) -> str: ...

    def _shared_environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": f"{NODE_HOME / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "DO_NOT_TRACK": "1",
            # Whatever would leave this machine is refused.
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
        }

    def _write(self, path: str, text: str) -> None:
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


class ClaudeCode(CodingAgent):
    """Claude Code of Anthropic."""

    client = "claude-code"
    source = "claude"

    def configure(self) -> None:
        """Write settings of the user's own; the model is in the environment."""
        self._write(".claude/settings.json", '{"spinnerTipsEnabled": false, "hooks": {}}\n')

    def connect(self, server: McpServer) -> None:
        """Add the server for the user."""
        # Without `alwaysLoad` the agent neither waits for the server nor shows its tools.
        entry = {**_json_entry(server), "alwaysLoad": True}
        self._write(".claude.json", json.dumps({"mcpServers": {SERVER: entry}}))

    def _command(self, prompt: str, *, resumes: bool) -> Sequence[str | Path]:
        again = ["--continue"] if resumes else []
        options = [*again, "--allowedTools", f"mcp__{SERVER}__*", "--output-format", "json"]
        return [*CLAUDE_CODE, "-p", prompt, *options]

    def _environment(self) -> Mapping[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self._model.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_CONNECT_TIMEOUT_MS": f"{PATIENCE_S}000",
            "MCP_TIMEOUT": f"{PATIENCE_S}000",
        }

    def _answer(self, output: str) -> str:
        return json.loads(output)["result"]


class Codex(CodingAgent):
    """Codex of OpenAI."""

    client = "codex"
    source = "codex"

    def configure(self) -> None:
        """Write the model."""
        self._write(".codex/config.toml", self._settings())

    def connect(self, server: McpServer) -> None:
        """Write the model, and the server, for which the agent is told to wait."""
        waiting = [
            f"[mcp_servers.{SERVER}]",
            "required = true",
            f"startup_timeout_sec = {PATIENCE_S}",
        ]
        lines = [self._settings(), *waiting, *_toml_entry(server)]
        self._write(".codex/config.toml", "\n".join(lines))

    def _settings(self) -> str:
        model = f"""
            model = "stand-in"
            model_provider = "local"
            approval_policy = "never"
            check_for_update_on_startup = false
            [analytics]
            enabled = false
            [model_providers.local]
            name = "local"
            base_url = "{self._model.url}/v1"
            wire_api = "responses"
            env_key = "MODEL_KEY"
        """
        return "\n".join(line.strip() for line in model.splitlines())

    def _command(self, prompt: str, *, resumes: bool) -> Sequence[str | Path]:
        # A person is asked once whether the hooks are to be trusted.
        trusting = "--dangerously-bypass-hook-trust"
        again = ["resume", "--last"] if resumes else []
        return [*CODEX, "exec", *again, "--skip-git-repo-check", trusting, "--json", prompt]

    def _environment(self) -> Mapping[str, str]:
        return {"MODEL_KEY": KEY, "CODEX_HOME": str(self.home / ".codex")}

    def _answer(self, output: str) -> str:
        events = [json.loads(line) for line in output.splitlines()]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        return "\n".join(item["text"] for item in items if item["type"] == "agent_message")


class GeminiCli(CodingAgent):
    """Gemini CLI of Google."""

    client = "gemini"
    source = "gemini"

    def configure(self) -> None:
        """Write how the user signs in."""
        self._write(".gemini/settings.json", json.dumps(self._settings()))

    def connect(self, server: McpServer) -> None:
        """Add the server for the user."""
        entry = {**_json_entry(server), "timeout": PATIENCE_S * 1000}
        settings = {**self._settings(), "mcpServers": {SERVER: entry}}
        self._write(".gemini/settings.json", json.dumps(settings))

    def _settings(self) -> dict[str, Any]:
        return {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        }

    def _command(self, prompt: str, *, resumes: bool) -> Sequence[str | Path]:
        again = ["--resume", "latest"] if resumes else []
        return [*GEMINI_CLI, *again, "--yolo", "-m", "gemini-2.5-pro", "-o", "json", "-p", prompt]

    def _environment(self) -> Mapping[str, str]:
        return {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": self._model.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def _answer(self, output: str) -> str:
        return json.loads(output)["response"]


AGENTS: Sequence[type[CodingAgent]] = (ClaudeCode, Codex, GeminiCli)


def _json_entry(server: McpServer) -> dict[str, Any]:
    match server:
        case LocalServer():
            return {"command": server.command, "args": ["mcp"], "env": dict(server.environment)}
        case RemoteServer():
            headers = {"Authorization": f"Bearer {server.key}"}
            return {"type": "http", "url": f"{server.url}/mcp", "headers": headers}


def _toml_entry(server: McpServer) -> list[str]:
    # A JSON string is a TOML string.
    match server:
        case LocalServer():
            pairs = [f"{name} = {json.dumps(value)}" for name, value in server.environment.items()]
            return [
                f"command = {json.dumps(server.command)}",
                'args = ["mcp"]',
                f"env = {{ {', '.join(pairs)} }}",
            ]
        case RemoteServer():
            headers = f"{{ Authorization = {json.dumps(f'Bearer {server.key}')} }}"
            return [f"url = {json.dumps(f'{server.url}/mcp')}", f"http_headers = {headers}"]

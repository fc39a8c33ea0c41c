"""The clients that can be connected, each declared once: its files, and the shape of its entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from engram.clients import hooks
from engram.clients.edits import AddItem, Edit, SetKey, Syntax
from engram.clients.hooks import HookNames, hook_edits
from engram.clients.machine import Machine
from engram.clients.server import KEY_VARIABLE, NAME, Local, Remote, Server
from engram.errors import InvalidRequestError
from engram.model.value import Value

Scope = Literal["user", "project"]


class FilePlan(Value):
    """What is to be written to one file."""

    path: Path
    syntax: Syntax
    edits: tuple[Edit, ...]
    has_key: bool = False
    """An API key is among it."""
    note: str = ""
    """What else the user has to do."""


def no_more(_machine: Machine, _scope: Scope, _server: Server) -> tuple[FilePlan, ...]:
    """Return nothing: most clients have one file."""
    return ()


Entry = dict[str, Any]
Place = Callable[[Machine], Path]


class Client(Value):
    """A program that speaks MCP: how it is found, and what is written where to connect it."""

    name: str
    title: str
    syntax: Syntax
    file: Place
    """The configuration of the user."""
    project_file: str | None
    """The configuration of a project, below its directory."""
    at: tuple[str, ...]
    local: Callable[[Local], Entry]
    remote: Callable[[Remote], Entry]
    aliases: tuple[str, ...] = ()
    """What else people call it."""
    programs: tuple[str, ...] = ()
    """Programs on the path that show that the client is installed."""
    traces: Callable[[Machine], Sequence[Path]] = lambda _: ()
    """Files and directories that show the same, besides the configuration file."""
    needs_key: bool = False
    """No variable can be named in place of a key."""
    inputs: Callable[[Remote], tuple[AddItem, ...]] = lambda _: ()
    """Further items of the configuration file for a remote server."""
    more: Callable[[Machine, Scope, Server], tuple[FilePlan, ...]] = no_more
    """Further files, such as those of hooks; a file may be named again."""

    def is_found(self, machine: Machine) -> bool:
        """Return True if the client has been used or is installed here."""
        file = self.file(machine)
        traces = (file, *self.traces(machine))
        return any(path.exists() for path in traces) or any(map(machine.finds, self.programs))

    def plan(self, machine: Machine, *, server: Server, scope: Scope) -> tuple[FilePlan, ...]:
        """Return what is written to which files to connect the client.

        Raises:
            InvalidRequestError: the client lacks the scope, or needs a key.
        """
        path = self.file(machine)
        if scope == "project":
            if self.project_file is None:
                raise InvalidRequestError(f"{self.title} has no project scope", field="--scope")
            path = machine.directory / self.project_file
        main = FilePlan(
            path=path,
            syntax=self.syntax,
            edits=self._edits(server),
            has_key=isinstance(server, Remote) and server.key is not None,
        )
        return merged((main, *self.more(machine, scope, server)))

    def _edits(self, server: Server) -> tuple[Edit, ...]:
        at = (*self.at, NAME)
        if isinstance(server, Local):
            return (SetKey(at=at, value=self.local(server)),)
        if self.needs_key and server.key is None:
            raise InvalidRequestError(
                f"{self.title} cannot read a key from a variable: give it with --key", field="--key"
            )
        return (SetKey(at=at, value=self.remote(server)), *self.inputs(server))


def merged(plans: Sequence[FilePlan]) -> tuple[FilePlan, ...]:
    """Return the plans with the edits of one file in one plan, in their order."""
    by_path = dict[Path, FilePlan]()
    for plan in plans:
        known = by_path.get(plan.path)
        by_path[plan.path] = plan if known is None else _joined(known, plan)
    return tuple(by_path.values())


def _joined(first: FilePlan, second: FilePlan) -> FilePlan:
    return FilePlan(
        path=first.path,
        syntax=first.syntax,
        edits=(*first.edits, *second.edits),
        has_key=first.has_key or second.has_key,
        note=first.note or second.note,
    )


def _stdio(server: Local) -> Entry:
    """Return the entry that most clients take."""
    return {
        "command": server.program.command,
        "args": server.arguments,
        "env": server.environment,
    }


def _claude_code_file(machine: Machine) -> Path:
    return (machine.variable("CLAUDE_CONFIG_DIR") or machine.home) / ".claude.json"


def claude_code_directory(machine: Machine) -> Path:
    """Return the directory of Claude Code's settings and transcripts."""
    return machine.variable("CLAUDE_CONFIG_DIR") or machine.home / ".claude"


def _hook_plan(
    names: HookNames, path: Path, scope: Scope, server: Server, *, note: str = ""
) -> tuple[FilePlan, ...]:
    """Return the plan for the hooks in a file; they are the user's, in whatever project."""
    edits = hook_edits(names, server) if scope == "user" else ()
    return (FilePlan(path=path, syntax="json", edits=edits, note=note),) if edits else ()


def _claude_code_hooks(machine: Machine, scope: Scope, server: Server) -> tuple[FilePlan, ...]:
    path = claude_code_directory(machine) / "settings.json"
    return _hook_plan(hooks.CLAUDE_WITH_SERVER, path, scope, server)


CLAUDE_CODE = Client(
    name="claude-code",
    aliases=("claude",),
    title="Claude Code",
    syntax="json",
    file=_claude_code_file,
    project_file=".mcp.json",
    at=("mcpServers",),
    # Without `alwaysLoad` the tools are behind a search that the model has to think of.
    local=lambda server: {"type": "stdio", **_stdio(server), "alwaysLoad": True},
    remote=lambda server: {
        "type": "http",
        "url": server.url,
        "headers": server.bearer(f"${{{KEY_VARIABLE}}}"),
        "alwaysLoad": True,
    },
    programs=("claude",),
    traces=lambda machine: [claude_code_directory(machine)],
    more=_claude_code_hooks,
)


def codex_directory(machine: Machine) -> Path:
    """Return the directory of Codex."""
    return machine.variable("CODEX_HOME") or machine.home / ".codex"


def _codex_remote(server: Remote) -> Entry:
    if server.key is None:
        return {"url": server.url, "bearer_token_env_var": KEY_VARIABLE}
    return {"url": server.url, "http_headers": server.bearer("")}


def _codex_hooks(machine: Machine, scope: Scope, server: Server) -> tuple[FilePlan, ...]:
    path = codex_directory(machine) / "hooks.json"
    note = "Codex runs these hooks once you trust them: it asks at its next start, or with /hooks"
    return _hook_plan(hooks.CODEX, path, scope, server, note=note)


CODEX = Client(
    name="codex",
    title="Codex",
    syntax="toml",
    file=lambda machine: codex_directory(machine) / "config.toml",
    project_file=".codex/config.toml",
    at=("mcp_servers",),
    local=_stdio,
    remote=_codex_remote,
    programs=("codex",),
    traces=lambda machine: [codex_directory(machine)],
    more=_codex_hooks,
)


def gemini_directory(machine: Machine) -> Path:
    """Return the directory of Gemini CLI."""
    return (machine.variable("GEMINI_CLI_HOME") or machine.home) / ".gemini"


def _gemini_hooks(machine: Machine, scope: Scope, server: Server) -> tuple[FilePlan, ...]:
    path = gemini_directory(machine) / "settings.json"
    return _hook_plan(hooks.GEMINI, path, scope, server)


GEMINI = Client(
    name="gemini",
    aliases=("gemini-cli",),
    title="Gemini CLI",
    syntax="json",
    file=lambda machine: gemini_directory(machine) / "settings.json",
    project_file=".gemini/settings.json",
    at=("mcpServers",),
    local=_stdio,
    remote=lambda server: {
        "url": server.url,
        "type": "http",
        "headers": server.bearer(f"${{{KEY_VARIABLE}}}"),
    },
    programs=("gemini",),
    traces=lambda machine: [gemini_directory(machine)],
    more=_gemini_hooks,
)

CURSOR = Client(
    name="cursor",
    title="Cursor",
    syntax="json",
    file=lambda machine: machine.home / ".cursor" / "mcp.json",
    project_file=".cursor/mcp.json",
    at=("mcpServers",),
    local=_stdio,
    remote=lambda server: {
        "url": server.url,
        "headers": server.bearer(f"${{env:{KEY_VARIABLE}}}"),
    },
    programs=("cursor", "cursor-agent"),
    traces=lambda machine: [machine.home / ".cursor"],
)

_VSCODE_INPUT = "engram-api-key"


def _vscode_inputs(server: Remote) -> tuple[AddItem, ...]:
    """Let VS Code ask for the key once and keep it in its secret storage."""
    if server.key is not None:
        return ()
    value = {
        "type": "promptString",
        "id": _VSCODE_INPUT,
        "description": "API key of Engram",
        "password": True,
    }
    return (AddItem(at=("inputs",), value=value, mark=_VSCODE_INPUT),)


VSCODE = Client(
    name="vscode",
    aliases=("code", "vs-code"),
    title="VS Code",
    syntax="json",
    file=lambda machine: machine.app_data / "Code" / "User" / "mcp.json",
    project_file=".vscode/mcp.json",
    at=("servers",),
    local=lambda server: {"type": "stdio", **_stdio(server)},
    remote=lambda server: {
        "type": "http",
        "url": server.url,
        "headers": server.bearer(f"${{input:{_VSCODE_INPUT}}}"),
    },
    programs=("code",),
    traces=lambda machine: [machine.app_data / "Code" / "User"],
    inputs=_vscode_inputs,
)

COPILOT = Client(
    name="copilot",
    aliases=("copilot-cli",),
    title="Copilot CLI",
    syntax="json",
    file=lambda machine: copilot_directory(machine) / "mcp-config.json",
    project_file=None,
    at=("mcpServers",),
    local=lambda server: {"type": "local", **_stdio(server), "tools": ["*"]},
    remote=lambda server: {
        "type": "http",
        "url": server.url,
        "headers": server.bearer(f"${{{KEY_VARIABLE}}}"),
        "tools": ["*"],
    },
    programs=("copilot",),
    traces=lambda machine: [copilot_directory(machine)],
)


def copilot_directory(machine: Machine) -> Path:
    """Return the directory of Copilot CLI."""
    return machine.variable("COPILOT_HOME") or machine.home / ".copilot"


def _opencode_file(machine: Machine) -> Path:
    if (named := machine.variable("OPENCODE_CONFIG")) is not None:
        return named
    directory = machine.xdg_config / "opencode"
    # Both are read; an existing one is edited, and the first is what opencode itself creates.
    names = ("opencode.json", "opencode.jsonc")
    return next(
        (path for name in names if (path := directory / name).exists()), directory / names[0]
    )


OPENCODE = Client(
    name="opencode",
    title="opencode",
    syntax="json",
    file=_opencode_file,
    project_file="opencode.json",
    at=("mcp",),
    local=lambda server: {
        "type": "local",
        "command": [server.program.command, *server.arguments],
        "environment": server.environment,
        "enabled": True,
    },
    remote=lambda server: {
        "type": "remote",
        "url": server.url,
        "headers": server.bearer(f"{{env:{KEY_VARIABLE}}}"),
        "enabled": True,
    },
    programs=("opencode",),
    traces=lambda machine: [machine.xdg_config / "opencode"],
)


def _zed_directory(machine: Machine) -> Path:
    return machine.app_data / "Zed" if machine.platform == "win32" else machine.xdg_config / "zed"


ZED = Client(
    name="zed",
    title="Zed",
    syntax="json",
    file=lambda machine: _zed_directory(machine) / "settings.json",
    project_file=".zed/settings.json",
    at=("context_servers",),
    local=_stdio,
    remote=lambda server: {"url": server.url, "headers": server.bearer("")},
    programs=("zed", "zeditor"),
    traces=lambda machine: [_zed_directory(machine)],
    needs_key=True,
)


def _goose_file(machine: Machine) -> Path:
    if (root := machine.variable("GOOSE_PATH_ROOT")) is not None:
        return root / "config" / "config.yaml"
    if machine.platform == "win32":
        return machine.app_data / "Block" / "goose" / "config" / "config.yaml"
    return machine.xdg_config / "goose" / "config.yaml"


_GOOSE_TIMEOUT_S = 300


def _goose_entry(kind: str, **own: Any) -> Entry:
    return {
        "enabled": True,
        "type": kind,
        "name": NAME,
        "description": "Memory: conversations, notes and documents",
        **own,
        "timeout": _GOOSE_TIMEOUT_S,
        "bundled": False,
    }


GOOSE = Client(
    name="goose",
    title="goose",
    syntax="yaml",
    file=_goose_file,
    project_file=None,
    at=("extensions",),
    local=lambda server: _goose_entry(
        "stdio",
        cmd=server.program.command,
        args=server.arguments,
        envs=server.environment,
        env_keys=[],
    ),
    remote=lambda server: _goose_entry(
        "streamable_http",
        uri=server.url,
        headers=server.bearer(f"${{{KEY_VARIABLE}}}"),
        envs={},
        env_keys=[] if server.key else [KEY_VARIABLE],
    ),
    programs=("goose",),
    traces=lambda machine: [_goose_file(machine).parent],
)

CLAUDE_DESKTOP = Client(
    name="claude-desktop",
    title="Claude Desktop",
    syntax="json",
    file=lambda machine: machine.app_data / "Claude" / "claude_desktop_config.json",
    project_file=None,
    at=("mcpServers",),
    local=_stdio,
    # Its file takes commands only.
    remote=lambda server: _stdio(server.relay),
    programs=("claude-desktop",),
    traces=lambda machine: [machine.app_data / "Claude"],
    needs_key=True,
)

WINDSURF = Client(
    name="windsurf",
    title="Windsurf",
    syntax="json",
    file=lambda machine: machine.home / ".codeium" / "windsurf" / "mcp_config.json",
    project_file=None,
    at=("mcpServers",),
    local=_stdio,
    remote=lambda server: {
        "serverUrl": server.url,
        "headers": server.bearer(f"${{env:{KEY_VARIABLE}}}"),
    },
    programs=("windsurf",),
    traces=lambda machine: [machine.home / ".codeium" / "windsurf"],
)

CLIENTS: Sequence[Client] = (
    CLAUDE_CODE,
    CODEX,
    GEMINI,
    CURSOR,
    VSCODE,
    COPILOT,
    OPENCODE,
    ZED,
    GOOSE,
    CLAUDE_DESKTOP,
    WINDSURF,
)


def client_named(name: str) -> Client:
    """Return a client by its name.

    Raises:
        InvalidRequestError: the name is unknown.
    """
    for client in CLIENTS:
        if name in {client.name, *client.aliases}:
            return client
    known = ", ".join(client.name for client in CLIENTS)
    raise InvalidRequestError(f"unknown client {name!r}; these are known: {known}", field="CLIENT")

"""The hooks that a client is given: at each event the same command, whichever client runs it.

Some clients read the hooks of others, and drop one whose command they have already: so the command names the
event in our word and no client, and is the same text in every file. Where a client can call a tool of the
server that it runs anyway, prompts need no process of their own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from engram.clients.edits import AddItem
from engram.clients.server import NAME, HookKind, Local, Server
from engram.model.reminder import HOOK_TOOL
from engram.model.value import Value, replace

_KINDS: Mapping[str, HookKind] = {
    "start": "recall",
    "prompt": "recall",
    "turn": "capture",
    "compact": "capture",
    "end": "capture",
}
_TIMEOUT_S = 5
"""Far longer than a hook takes; a machine that is asleep must not make an agent wait for minutes."""

Entry = Mapping[str, Any]


class HookNames(Value):
    """What a client calls the events, and how it writes down a hook."""

    events: Mapping[str, str]
    """Our event by the client's name of it."""
    entry: Callable[[str], Entry]
    """Returns the hook that runs a command."""
    calls: Mapping[str, Entry] = {}
    """The hook of an event at which the client calls a tool of its server instead."""


def _entry_of_claude(command: str) -> Entry:
    return {"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT_S}]}


def _entry_of_gemini(command: str) -> Entry:
    hook = {"name": "engram", "type": "command", "command": command}
    return {"hooks": [{**hook, "timeout": _TIMEOUT_S * 1_000}]}


def _entry_of_cursor(command: str) -> Entry:
    return {"command": command, "timeout": _TIMEOUT_S}


CALL_TIMEOUT_S = 0.2
"""The engine gives up after `limits.HOOK_RECALL_S`; the rest is for the way there and back."""

PROMPT_CALL: Entry = {
    "hooks": [
        {
            "type": "mcp_tool",
            "server": NAME,
            "tool": HOOK_TOOL,
            "input": {
                "command": "engram hook prompt",
                "session_id": "${session_id}",
                "transcript_path": "${transcript_path}",
                "cwd": "${cwd}",
                "prompt": "${prompt}",
            },
            "timeout": CALL_TIMEOUT_S,
        }
    ]
}
"""The client puts fields of the event in the place of `${…}`."""

CLAUDE = HookNames(
    events={
        "SessionStart": "start",
        "UserPromptSubmit": "prompt",
        "Stop": "turn",
        "SubagentStop": "turn",
        "PreCompact": "compact",
        "SessionEnd": "end",
    },
    entry=_entry_of_claude,
)
CLAUDE_WITH_SERVER = replace(CLAUDE, calls={"prompt": PROMPT_CALL})
"""For users whose entry of the server has the name that the call uses; a plugin's has another."""

CODEX = HookNames(
    events={name: event for name, event in CLAUDE.events.items() if name != "SubagentStop"},
    entry=_entry_of_claude,
)
GEMINI = HookNames(
    events={
        "SessionStart": "start",
        "BeforeAgent": "prompt",
        "AfterAgent": "turn",
        "PreCompress": "compact",
        "SessionEnd": "end",
    },
    entry=_entry_of_gemini,
)

CURSOR = HookNames(
    events={
        "sessionStart": "start",
        "beforeSubmitPrompt": "prompt",
        "stop": "turn",
        "preCompact": "compact",
        "sessionEnd": "end",
    },
    entry=_entry_of_cursor,
)


def hook_edits(names: HookNames, server: Server) -> tuple[AddItem, ...]:
    """Return the hooks of a client that are wanted for a local server; a remote one has none."""
    if not isinstance(server, Local):
        return ()
    return tuple(
        AddItem(
            at=("hooks", name),
            value=names.calls.get(event) or names.entry(hook_command(server, event)),
            mark=f" hook {event}",
        )
        for name, event in names.events.items()
        if _KINDS[event] in server.hooks
    )


def hook_command(server: Local, event: str) -> str:
    """Return the line that a client's shell runs at an event."""
    variables = [f"{name}={value}" for name, value in server.environment.items()]
    program = (server.program.command, *server.program.arguments)
    return shlex.join([*(("env", *variables) if variables else ()), *program, "hook", event])

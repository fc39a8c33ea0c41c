"""Hooks come with a connection, go with it byte for byte, and are the same text in every client."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from engram.hooks.events import meaning_of
from tests.clients.conftest import User

FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
}
OWN = '{\n  // mine\n  "theme": "dark",\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}\n}\n'


def hooks_in(user: User, client: str) -> dict[str, list[Any]]:
    path = user.directory / FILES[client]
    return json.loads(path.read_text()).get("hooks", {}) if path.exists() else {}


def commands_in(user: User, client: str) -> dict[str, str]:
    """Return the command of each event at which one is run."""
    entries = {name: items[-1]["hooks"][0] for name, items in hooks_in(user, client).items()}
    return {name: entry["command"] for name, entry in entries.items() if "command" in entry}


@pytest.mark.parametrize("client", FILES)
def test_a_connected_client_runs_the_hook_of_each_event(user: User, client: str) -> None:
    user("connect", client)

    for name, command in commands_in(user, client).items():
        words = shlex.split(command)
        assert words[-2] == "hook"
        assert words[-1] == meaning_of(name)
        assert f"ENGRAM_HOME={user.home}" in words


def test_all_clients_run_the_same_text_at_an_event(user: User) -> None:
    user("connect", *FILES)

    by_event = dict[str, set[str]]()
    for client in FILES:
        for name, command in commands_in(user, client).items():
            by_event.setdefault(str(meaning_of(name)), set()).add(command)
    assert by_event.keys() == {"start", "prompt", "turn", "compact", "end"}
    assert {len(commands) for commands in by_event.values()} == {1}


def test_claude_code_calls_its_server_with_a_prompt_in_place_of_the_command(user: User) -> None:
    user("connect", "claude-code")
    path = user.directory / FILES["claude-code"]
    (hook,) = hooks_in(user, "claude-code")["UserPromptSubmit"][0]["hooks"]
    servers = json.loads((user.directory / ".claude.json").read_text())["mcpServers"]

    assert hook["type"] == "mcp_tool"
    assert hook["server"] in servers

    # Whoever connected with an earlier version has the command there.
    command = {"type": "command", "command": "/usr/bin/engram hook prompt", "timeout": 5}
    path.write_text(path.read_text().replace(json.dumps(hook), json.dumps(command)))
    user("connect", "claude-code")

    assert hooks_in(user, "claude-code")["UserPromptSubmit"] == [{"hooks": [hook]}]


@pytest.mark.parametrize(
    ("options", "events"),
    [
        (("--no-capture",), {"SessionStart", "UserPromptSubmit"}),
        (("--no-recall",), {"Stop", "SubagentStop", "PreCompact", "SessionEnd"}),
        (("--no-capture", "--no-recall"), set[str]()),
        (("--scope", "project"), set[str]()),
        (("--url", "https://memory.example.org"), set[str]()),
    ],
)
def test_hooks_that_are_not_wanted_are_not_written(
    user: User, options: tuple[str, ...], events: set[str]
) -> None:
    user("connect", "claude-code", *options)

    assert hooks_in(user, "claude-code").keys() == events


def test_an_engine_finds_that_hooks_were_connected(user: User) -> None:
    user("connect", "claude-code", "--no-capture", "--no-recall")
    assert not (user.home / "hooks").exists()

    user("connect", "claude-code")

    assert (user.home / "hooks").stat().st_mode & 0o777 == 0o700


def test_connecting_again_changes_nothing_and_with_less_removes_the_rest(user: User) -> None:
    user("connect", "claude-code")
    before = user.files()

    user("connect", "claude-code")
    assert user.files() == before

    user("connect", "claude-code", "--no-capture")
    assert hooks_in(user, "claude-code").keys() == {"SessionStart", "UserPromptSubmit"}


@pytest.mark.parametrize("client", FILES)
def test_disconnecting_leaves_every_byte_of_others(user: User, client: str) -> None:
    path: Path = user.directory / FILES[client]
    path.parent.mkdir(parents=True)
    path.write_text(OWN)
    before = user.files()

    user("connect", client)
    assert "say done" in path.read_text()
    assert " hook turn" in path.read_text()
    user("disconnect", client)

    assert user.files() == before


def test_codex_users_are_told_to_trust_the_hooks(user: User) -> None:
    assert "trust" in user("connect", "codex").stderr


def test_a_client_with_some_hooks_is_whole(user: User) -> None:
    user("connect", "gemini", "--no-capture")

    answer = user("doctor", "clients", "--json")

    assert "would be written" not in answer.stdout

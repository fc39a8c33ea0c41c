"""`engram doctor clients`: what clients were given still works, and on the right store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve import key_in, read_json, read_start, serving
from tests.clients.conftest import User

CURSOR = Path(".cursor/mcp.json")


def change_entry(user: User, **changes: Any) -> None:
    """Change our entry in Cursor's file, and what was noted of it, as an older version left them."""
    path = user.directory / CURSOR
    document = json.loads(path.read_text())
    document["mcpServers"]["engram"] |= changes
    path.write_text(json.dumps(document))
    manifest = user.home / "clients" / "manifest.json"
    noted = json.loads(manifest.read_text())
    noted["records"][0]["edits"][0]["value"] |= changes
    manifest.write_text(json.dumps(noted))


def problem_of(user: User) -> str:
    """Return the one problem that is found, which has a remedy and ends with status 1."""
    found = user("doctor", "clients", "--json")
    [problem] = json.loads(found.stdout)["problems"]
    assert found.status == 1
    assert problem["client"] == "cursor"
    assert problem["remedy"]
    return problem["problem"]


def test_every_connected_client_is_started_and_answers(user: User) -> None:
    user("connect", "goose", "opencode")

    checked = user("doctor", "clients")

    assert checked.status == 0
    assert checked.stdout.count("is as it should be") == 2
    assert "Traceback" not in checked.stderr


def test_no_client_is_no_problem(user: User) -> None:
    checked = user("doctor", "clients")

    assert (checked.status, checked.stdout) == (0, "")
    assert "no client is connected" in checked.stderr


def test_a_missing_or_changed_entry_is_a_problem(user: User) -> None:
    user("connect", "cursor")
    path = user.directory / CURSOR
    written = path.read_text()

    path.write_text(written.replace('"mcp"', '"mpc"'))
    changed = problem_of(user)
    path.write_text("{}")
    absent = problem_of(user)
    path.write_text("{")
    unreadable = problem_of(user)
    path.unlink()
    gone = problem_of(user)

    assert changed == "the entry is not what was written"
    assert absent == "the entry is gone"
    assert "cannot be parsed" in unreadable
    assert gone == "the file is gone"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"command": "/nowhere/engram"}, "not what would be written now"),
        ({"args": ["-m", "engram", "mcp"]}, "not what would be written now"),
        ({"env": {"ENGRAM_HOME": "/elsewhere"}}, "it uses the store in /elsewhere, not in"),
    ],
)
def test_an_entry_of_another_installation_is_a_problem(
    user: User, changes: dict[str, Any], problem: str
) -> None:
    user("connect", "cursor")
    change_entry(user, **changes)

    assert problem in problem_of(user)
    user("connect", "cursor")
    entry = json.loads((user.directory / CURSOR).read_text())["mcpServers"]["engram"]
    assert not changes.items() <= entry.items()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["/nowhere/engram"], "there is no program /nowhere/engram"),
        (["/bin/echo", "hello"], "it does not answer `initialize`"),
        (["/bin/echo", "{}"], "what answers is not Engram"),
    ],
)
def test_a_relay_that_does_not_answer_is_a_problem(
    user: User, arguments: list[str], problem: str
) -> None:
    # A relay to a server is compared with nothing, as its URL is the user's choice.
    user("connect", "cursor")
    command, *rest = arguments
    change_entry(user, command=command, args=rest, env={"ENGRAM_URL": "http://127.0.0.1:1"})

    assert problem_of(user).startswith(problem)


def test_a_server_is_asked_with_the_key_of_the_entry(user: User) -> None:
    with serving(user, "--json") as output:
        url = read_json(output)["url"]
        user("connect", "cursor", "codex", "--url", url, "--key", key_in(user))
        works = user("doctor", "clients")
        user("connect", "cursor", "codex", "--url", url)
        by_variable = user("doctor", "clients", api_key=key_in(user))
        user("disconnect", "codex")
        user("connect", "cursor", "--url", url, "--key", "engram_sk_live_wrong")
        refused = problem_of(user)
    unreachable = problem_of(user)

    assert works.status == 0, works.stdout
    assert by_variable.status == 0, by_variable.stdout
    assert "refuses the key" in refused
    assert "does not answer" in unreachable


def test_the_remedy_is_the_command_that_connected_the_client(user: User) -> None:
    user("connect", "cursor", "--scope", "project", "--url", "http://127.0.0.1:8788")
    (user.project / CURSOR).write_text("{}")

    found = json.loads(user("doctor", "clients", "--json").stdout)
    user.shell(found["problems"][0]["remedy"].split("`")[1])

    entry = json.loads((user.project / CURSOR).read_text())["mcpServers"]["engram"]
    assert entry["url"] == "http://127.0.0.1:8788/mcp"


def test_the_lines_that_a_server_prints_work_from_any_directory(user: User) -> None:
    (user.directory / ".cursor").mkdir()
    with serving(user) as output:
        lines = read_start(output)
        over_http, over_stdio = [line.strip() for line in lines if " connect --all" in line]
        user.shell(over_http)
        with_key = user("doctor", "clients")
        user.shell(over_stdio)
        without_key = user("doctor", "clients")
        entry = json.loads((user.directory / CURSOR).read_text())["mcpServers"]["engram"]

    assert with_key.status == 0, with_key.stdout
    assert without_key.status == 0, without_key.stdout
    assert entry["env"]["ENGRAM_HOME"] == str(user.home)
    assert user("disconnect", "--all").status == 0

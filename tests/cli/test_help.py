"""Help that teaches: each command has examples, and the whole is compared with what it was."""

from __future__ import annotations

import pytest
from inline_snapshot import external_file

from tests.cli.commands import Engram
from tools.docs import all_commands

COMMANDS = tuple(all_commands())


def help_of(engram: Engram, command: str) -> str:
    """Return a command's help without the blanks that end its lines."""
    _, *path = command.split()
    shown = engram(*path, "--help")
    assert shown.status == 0
    return "\n".join(line.rstrip() for line in shown.stdout.splitlines())


def test_help_is_what_it_was(engram: Engram) -> None:
    """Renew it with `pytest tests/cli/test_help.py --inline-snapshot=fix` and review the change."""
    text = "\n\n".join(help_of(engram, command) for command in COMMANDS) + "\n"

    assert text == external_file("../golden/help.txt")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_by_example(engram: Engram, command: str) -> None:
    text = help_of(engram, command)

    is_group = "Commands:" in text
    assert is_group or "Examples:" in text
    assert is_group or ("--json" in text and "--home" in text and "--debug" in text)
    assert max(len(line) for line in text.splitlines()) <= 80


def test_no_arguments_show_the_help(engram: Engram) -> None:
    shown = engram()

    assert shown.status == 2
    assert "Commands:" in shown.stderr

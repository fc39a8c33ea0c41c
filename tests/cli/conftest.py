"""The command line on a store of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.commands import Engram


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own settings and terminal out of the tests."""
    for name in os.environ:  # noqa: TID251 what the tests must not depend on
        if name.startswith("ENGRAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def engram(tmp_path: Path) -> Engram:
    """Return the command line on an empty store."""
    return Engram(tmp_path / "store")


@pytest.fixture
def conversation(engram: Engram) -> str:
    """Return the id of a conversation of three messages."""
    created = engram("conversations", "create", "--title", "Lisbon", "--tag", "travel", "--json")
    conversation_id = created.json["conversation_id"]
    for role, text in (
        ("user", "When do we fly to Lisbon?"),
        ("assistant", "The flight to Lisbon leaves on Friday."),
        ("user", "Please book a hotel near the river."),
    ):
        engram("conversations", "append", text, "--role", role, "-c", conversation_id)
    return conversation_id

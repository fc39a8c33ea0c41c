"""A store on a medium that cannot be written: every reading command works, and none returns less than is there."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.commands import Engram, Outcome
from tests.permissions import unprivileged

READING = (
    ("doctor",),
    ("search", "apples"),
    ("status",),
    ("conversations", "list"),
    ("notes", "list"),
    ("memories", "list"),
    ("orgs", "list"),
)


@pytest.fixture
def filled(engram: Engram) -> Engram:
    """Return a store that every process has closed."""
    engram("conversations", "append", "the apples are in the red basket")
    return engram


@contextmanager
def read_only(home: Path) -> Generator[Engram]:
    """Put a copy of a store where this process cannot write; everybody may read it."""
    # Not below the test's own directory, which nobody else may enter.
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        copy = Path(directory) / "store"
        shutil.copytree(home, copy)
        paths = [copy, *copy.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        with unprivileged():
            yield Engram(copy)
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_reading_commands_open_a_store_that_cannot_be_written(
    filled: Engram, command: tuple[str, ...]
) -> None:
    with read_only(filled.home) as engram:
        outcome = engram(*command)

    assert outcome.status == 0, outcome.stderr


def test_what_a_search_finds_there_is_what_was_stored(filled: Engram) -> None:
    with read_only(filled.home) as engram:
        found = engram("search", "apples", "--json")
        refused = engram("conversations", "append", "more")

    assert "red basket" in found.stdout
    assert_refused(refused)


def test_what_is_only_in_the_log_is_found(filled: Engram) -> None:
    with killed_while_writing(filled.home), read_only(filled.home) as engram:
        found = engram("search", "pears", "--json")
        checked = engram("doctor")

    assert "green basket" in found.stdout
    assert checked.status == 0, checked.stdout


def test_a_log_that_cannot_be_read_is_refused_and_not_left_out(filled: Engram) -> None:
    with killed_while_writing(filled.home):
        for index in filled.home.rglob("*-shm"):
            index.unlink()
        with read_only(filled.home) as engram:
            searched = engram("search", "pears")
            checked = engram("doctor")

    assert_refused(searched)
    assert checked.status == 1


@contextmanager
def killed_while_writing(home: Path) -> Generator[None]:
    """Leave the store as a process leaves it that is killed: with a log, and the index of the log."""
    reader = sqlite3.connect(next((home / "orgs").glob("*.db")))
    try:
        # SQLite empties the log when the last connection is closed; this one is open until the copy is made.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchone()
        Engram(home)("conversations", "append", "the pears are in the green basket")
        yield
    finally:
        reader.close()


def assert_refused(outcome: Outcome) -> None:
    """Check that a command was refused because the medium cannot be written."""
    assert outcome.status == 1
    assert outcome.stderr.startswith("error: store_read_only: ")

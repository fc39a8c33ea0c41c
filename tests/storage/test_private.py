"""A store that was open to other users is closed when it is opened."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from engram.clock import RandomIds, SystemClock
from engram.errors import ConfigurationError
from engram.model.access import OrganizationDraft
from engram.storage.private import make_private
from engram.storage.sqlite.store import SqliteStore
from tests.permissions import unprivileged
from tests.promises import promise

pytestmark = promise("private")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def open_directory() -> Generator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def modes(home: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_mode & 0o777 for path in (home, *home.rglob("*"))}


async def filled(home: Path) -> SqliteStore:
    store = SqliteStore(home, clock=SystemClock(), ids=RandomIds())
    await store.open()
    made = await store.control.create_organization(OrganizationDraft(name="acme"), actor="test")
    await store.organization(made.id)
    return store


async def test_a_new_directory_that_exists_already_is_closed_to_others(home: Path) -> None:
    home.mkdir(mode=0o755)
    (home / "engram.toml").write_text("")

    store = await filled(home)

    assert all(mode & 0o077 == 0 for mode in modes(home).values()), modes(home)
    await store.close()


async def test_every_file_of_an_older_store_is_closed_to_others(home: Path) -> None:
    store = await filled(home)
    for path in (*home.rglob("*"), home):
        path.chmod(0o755 if path.is_dir() else 0o644)

    await (again := SqliteStore(home, clock=SystemClock(), ids=RandomIds())).open()

    assert {"engram.db", "engram.db-wal", "engram.db-shm"} <= modes(home).keys()
    assert all(mode & 0o077 == 0 for mode in modes(home).values()), modes(home)
    await again.close()
    await store.close()


def test_a_directory_with_other_uses_keeps_its_rights_but_for_the_files_of_the_store(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.mkdir(mode=0o755)
    (home / "novel.txt").write_text("It was a dark night")
    (home / "engram.toml").write_text('admin_token = "…"')
    for path in home.iterdir():
        path.chmod(0o644)

    make_private(home)

    assert modes(home) == {"store": 0o755, "novel.txt": 0o644, "engram.toml": 0o600}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_directory_for_everybody_keeps_its_rights(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.mkdir()
    home.chmod(0o1777)

    make_private(home)

    assert home.stat().st_mode & 0o7777 == 0o1777
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_link_in_the_directory_is_not_followed(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.touch(mode=0o644)
    home.mkdir(mode=0o755)
    (home / "engram.toml").symlink_to(target)

    make_private(home)

    assert target.stat().st_mode & 0o777 == 0o644


@needs_root
def test_a_directory_where_everybody_may_write_is_refused_to_all_but_its_owner(
    open_directory: Path,
) -> None:
    open_directory.chmod(0o777)

    with unprivileged(), pytest.raises(ConfigurationError, match="chmod 700") as caught:
        make_private(open_directory)

    assert caught.value.setting == "ENGRAM_HOME"


@needs_root
def test_a_directory_that_everybody_may_read_is_told_of_to_all_but_its_owner(
    open_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with unprivileged():
        make_private(open_directory)

    assert [record.levelno for record in caplog.records] == [logging.WARNING]

"""A store is held at one instant: what is stored later is not in it, and nobody waits for the copies."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engram import limits
from engram.errors import ConflictError, OpenFilesError, StoreBusyError, StoreReplacedError
from engram.storage.sqlite import snapshot
from engram.storage.sqlite.history import Mark, Position, mark_of
from engram.storage.sqlite.snapshot import hold_store
from tests.backup.stores import Backups, begin_in_new, opened, say
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR


async def test_held_files_do_not_change_while_others_write(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "store", tmp_path / "backups")
    async with opened(backups.home) as store:
        one, two = await begin_in_new(store, "one"), await begin_in_new(store, "two")

        with backups.held() as held:
            await say(store, one, "after")
            await say(store, two, "after")
            await begin_in_new(store, "three")

            messages = [file.inspect().counts.get("messages") for file in held.files]

    assert messages == [None, 1, 1]


async def test_an_organization_that_is_deleted_afterwards_is_still_copied(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "store", tmp_path / "backups")
    async with opened(backups.home) as store:
        organization_id, _ = await begin_in_new(store, "before")

        with backups.held() as held:
            await store.control.delete_organization(organization_id, actor=ACTOR)
            held.files[1].copy(tmp_path / "copy.db")

    with closing(sqlite3.connect(tmp_path / "copy.db")) as copied:
        assert copied.execute("SELECT messages FROM counters").fetchall() == [(1,)]


async def test_a_writer_that_holds_its_lock_too_long_lets_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BACKUP_LOCK_S", 0.01)
    monkeypatch.setattr(limits, "BACKUP_LOCK_ATTEMPTS", 2)
    home = tmp_path / "store"
    async with opened(home) as store:
        quiet, (busy, _) = await begin_in_new(store, "quiet"), await begin_in_new(store, "busy")
        path = home / "orgs" / f"{busy}.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")

            with pytest.raises(StoreBusyError), hold_store(home, clock=FakeClock()):
                raise AssertionError("a locked file was held")

            await say(store, quiet, "after")


async def test_a_file_that_has_lost_commits_is_not_backed_up(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "store", tmp_path / "backups")
    async with opened(backups.home) as store:
        await begin_in_new(store, "before")
    (path,) = (backups.home / "orgs").glob("*.db")
    mark = Mark(mark_of(path))
    position = mark.read()
    assert position is not None
    mark.create(Position(position.file_id, position.commits + 3, 9, position.chain))

    with pytest.raises(StoreReplacedError, match="3 commits"):
        backups.make()

    assert not list((tmp_path / "backups").glob("manifests/*"))


def scarce_files(_: int) -> tuple[int, int]:
    return 16, 16


async def test_more_organizations_than_file_descriptors_are_refused_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    async with opened(tmp_path) as store:
        await begin_in_new(store, "before")
    monkeypatch.setattr(snapshot, "files_max", lambda: 16)
    monkeypatch.setattr(resource, "getrlimit", scarce_files)

    with (
        pytest.raises(OpenFilesError, match="needs 38 file descriptors"),
        hold_store(tmp_path, clock=FakeClock()),
    ):
        raise AssertionError("more files were opened than allowed")


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="no store"), hold_store(tmp_path, clock=FakeClock()):
        raise AssertionError("there is nothing to hold")

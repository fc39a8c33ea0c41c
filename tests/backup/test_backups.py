"""Backups are made of what has changed, encrypted if asked for, and restored as they were."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyrage
import pytest

from engram.backup.catalog import manifest_path, read_catalog
from engram.backup.creating import STAGING, staging_in
from engram.backup.keeping import parse_rules, prune
from engram.backup.sealing import read_identities
from engram.errors import (
    BackupDamagedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StoreReplacedError,
)
from tests.backup.stores import (
    Backups,
    Conversation,
    begin_in_new,
    faults,
    opened,
    say,
    texts_of,
)
from tests.storage.test_older_files import turn_back


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path / "store", tmp_path / "backups")


@pytest.fixture
async def conversation(backups: Backups) -> Conversation:
    """Return a conversation of one message; another organisation has one too."""
    async with opened(backups.home) as store:
        await begin_in_new(store, "quiet")
        return await begin_in_new(store, "the first")


async def add(backups: Backups, conversation: Conversation, text: str) -> None:
    async with opened(backups.home) as store:
        await say(store, conversation, text)


async def test_a_restored_store_has_everything_and_no_faults(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    backups.make()

    backups.restore(tmp_path / "restored")

    assert await faults(tmp_path / "restored") == []
    assert await texts_of(tmp_path / "restored", *conversation) == ["the first"]
    async with opened(tmp_path / "restored") as store:
        await say(store, conversation, "goes on")


async def test_only_what_has_changed_is_copied_again(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    first, unchanged = backups.make(), backups.make()
    await add(backups, conversation, "the second")

    changed = backups.make()

    assert (first.copied, unchanged.copied, changed.copied) == (3, 0, 1)
    assert changed.manifest.counts["messages"] == 3
    objects = [path for path in (tmp_path / "backups/objects").glob("**/*") if path.is_file()]
    assert len(objects) == 4


async def test_a_file_that_was_rewritten_is_copied_again(
    backups: Backups, conversation: Conversation
) -> None:
    backups.make()
    path = backups.home / "orgs" / f"{conversation[0]}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")

    assert backups.make().copied == 1


async def test_a_file_of_an_earlier_version_is_backed_up_as_it_is(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    path = backups.home / "orgs" / f"{conversation[0]}.db"
    turn_back(path, version=13)

    made = backups.make()
    backups.restore(tmp_path / "restored")

    assert {file.state.version for file in made.manifest.files} >= {13}
    assert await texts_of(tmp_path / "restored", *conversation) == ["the first"]
    assert await faults(tmp_path / "restored") == []


async def test_a_lost_object_is_stored_again(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    del conversation
    backups.make()
    objects = [path for path in (tmp_path / "backups/objects").glob("**/*") if path.is_file()]
    objects[0].unlink()

    assert backups.make().copied == 1
    assert backups.make(full=True).copied == 3


async def test_an_earlier_state_is_restored_by_its_time(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    first = backups.make().manifest.instant
    await add(backups, conversation, "the second")
    backups.make()

    backups.restore(tmp_path / "restored", as_of=first + timedelta(seconds=1))

    assert await texts_of(tmp_path / "restored", *conversation) == ["the first"]
    with pytest.raises(NotFoundError):
        backups.restore(tmp_path / "earlier", as_of=first - timedelta(seconds=1))


async def test_files_are_for_their_owner_only(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    del conversation
    backups.make()
    backups.restore(tmp_path / "restored")

    made = [tmp_path / "backups", tmp_path / "restored", backups.home / STAGING]
    made += [path for directory in made for path in directory.glob("**/*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made}
    assert {path for path, mode in modes.items() if mode & 0o077} == set()


async def test_only_the_private_key_restores_an_encrypted_backup(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    key = pyrage.x25519.Identity.generate()
    (tmp_path / "key").write_text(f"# created by a test\n{key}\n")
    backups.make(recipients=[str(key.to_public())])
    (tmp_path / "other").write_text(f"{pyrage.x25519.Identity.generate()}\n")

    stored = [path.read_bytes() for path in (tmp_path / "backups").glob("objects/*/*")]
    assert all(data.startswith(b"age-encryption.org/v1") for data in stored)
    for identities in ((), read_identities(tmp_path / "other")):
        with pytest.raises(InvalidRequestError, match="encrypted"):
            backups.restore(tmp_path / "restored", identities=identities)
    backups.restore(tmp_path / "restored", identities=read_identities(tmp_path / "key"))
    assert await texts_of(tmp_path / "restored", *conversation) == ["the first"]
    assert backups.make(recipients=[]).copied == 3


async def test_a_damaged_object_is_named_and_leaves_the_target_empty(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    del conversation
    made = backups.make()
    last = max(made.manifest.files, key=lambda file: file.name)
    path = tmp_path / "backups/objects" / last.object[:2] / last.object
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(BackupDamagedError, match=last.object):
        backups.restore(tmp_path / "restored")

    assert list((tmp_path / "restored").iterdir()) == []
    path.write_bytes(data[:-1])
    with pytest.raises(BackupDamagedError, match=last.object):
        backups.restore(tmp_path / "restored")


async def test_a_directory_with_anything_in_it_is_not_restored_to(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    del conversation
    backups.make()
    (tmp_path / "used").mkdir()
    (tmp_path / "used/letter.txt").write_text("mine")
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings/engram.toml").write_text("")
    (tmp_path / "settings/hooks").mkdir()

    for target in (backups.home, tmp_path / "used"):
        with pytest.raises(ConflictError, match="not empty"):
            backups.restore(target)
    backups.restore(tmp_path / "settings")

    assert (tmp_path / "used/letter.txt").read_text() == "mine"
    assert await faults(tmp_path / "settings") == []


async def test_half_a_restore_does_not_open_and_is_resumed(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    backups.make()
    target = tmp_path / "restored"
    backups.restore(target)
    # As it is when the process ends before the last file.
    (target / "engram.db").unlink()
    (target / "engram.restoring").write_text(read_catalog(backups.destination).find(None).backup_id)

    with pytest.raises(StoreReplacedError, match="engram restore"):
        await faults(target)
    await add(backups, conversation, "the second")
    later = backups.make().manifest.instant
    with pytest.raises(ConflictError, match="half restored"):
        backups.restore(target)
    backups.restore(target, as_of=later - timedelta(seconds=1))

    assert await faults(target) == []
    assert await texts_of(target, *conversation) == ["the first"]
    assert not (target / "engram.restoring").exists()


async def test_a_damaged_manifest_is_listed_as_such_and_keeps_all_objects(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    first = backups.make().manifest
    await add(backups, conversation, "the second")
    second = backups.make().manifest
    path = tmp_path / "backups" / manifest_path(first.backup_id)
    path.write_bytes(path.read_bytes().replace(b'"messages":2', b'"messages":9'))

    catalog = read_catalog(backups.destination)
    prune(backups.destination, parse_rules("1h"), now=backups.clock.now())

    assert list(catalog.damaged) == [first.backup_id]
    assert [each.backup_id for each in catalog.manifests] == [second.backup_id]
    objects = [path for path in (tmp_path / "backups/objects").glob("**/*") if path.is_file()]
    assert len(objects) == 4


async def test_one_backup_of_a_store_is_made_at_a_time(
    backups: Backups, conversation: Conversation
) -> None:
    del conversation

    with staging_in(backups.home), pytest.raises(ConflictError, match="another process"):
        backups.make()

    assert backups.make().copied == 3


async def test_a_destination_belongs_to_one_store(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    del conversation
    backups.make()
    other = Backups(tmp_path / "another", tmp_path / "backups")
    async with opened(other.home) as store:
        await begin_in_new(store, "before")
    other.clock.advance(timedelta(days=1))

    for full in (False, True):
        with pytest.raises(ConflictError, match="another store"):
            other.make(full=full)


async def test_old_backups_are_removed_with_the_objects_that_only_they_had(
    backups: Backups, conversation: Conversation, tmp_path: Path
) -> None:
    backups.make()
    for number in range(3):
        await add(backups, conversation, f"message {number}")
        backups.clock.advance(timedelta(hours=1))
        backups.make()
    (tmp_path / "backups/objects/ab").mkdir()
    (tmp_path / "backups/objects/ab/stray").write_bytes(b"of a backup that was not finished")

    removed = prune(backups.destination, parse_rules("1d"), now=backups.clock.now())

    assert len(removed) == 3
    backups.restore(tmp_path / "restored")
    assert len(await texts_of(tmp_path / "restored", *conversation)) == 4
    objects = [path for path in (tmp_path / "backups/objects").glob("**/*") if path.is_file()]
    assert len(objects) == 3

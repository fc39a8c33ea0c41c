"""Files know their own history: what is emptied, older, another's or not in its place is refused."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from engram.clock import RandomIds
from engram.errors import StoreReplacedError
from engram.model.access import OrganizationDraft
from engram.model.ids import OrganizationId
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.history import Mark, Position, mark_of
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, append, begin, findings, read_texts
from tests.storage.processes import PROJECT, command
from tests.storage.test_older_files import turn_back

Damage = Callable[[Path], object]
"""Does something to a database file."""


@asynccontextmanager
async def opened(directory: Path, *, accept: bool = False) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(directory, clock=FakeClock(), ids=RandomIds(), accept=accept)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def only_organization(store: SqliteStore) -> OrganizationStore:
    (organization,) = await store.control.list_organizations()
    return await store.organization(organization.id)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Return the file of an organisation with two conversations; nobody has it open."""
    async with opened(tmp_path) as store:
        made = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
        organization = await store.organization(made.id)
        await begin(organization, "the first", "the second")
    shutil.copy(path_of(tmp_path, made.id), tmp_path / "older")
    async with opened(tmp_path) as store:
        await begin(await only_organization(store), "the third")
    return path_of(tmp_path, made.id)


def path_of(directory: Path, organization_id: OrganizationId) -> Path:
    return directory / "orgs" / f"{organization_id}.db"


def empty(path: Path) -> None:
    os.truncate(path, 0)


def put_older(path: Path) -> None:
    """Put the copy that was made when a conversation less was stored."""
    shutil.copy(path.parents[1] / "older", path)


def put_foreign(path: Path) -> None:
    """Give the file the id of another, as if it came from another store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET file_id = zeroblob(16)")


def put_other_branch(path: Path) -> None:
    """Let as many commits have stored something else."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET chain = zeroblob(32)")


def put_without_history(path: Path) -> None:
    mark = mark_of(path).rename(path.parents[1] / "mark")
    turn_back(path, version=13)
    mark.rename(mark_of(path))


def remove_mark(path: Path) -> None:
    mark_of(path).unlink()


def empty_mark(path: Path) -> None:
    empty(mark_of(path))


DAMAGES = (
    empty,
    put_older,
    put_foreign,
    put_other_branch,
    put_without_history,
    remove_mark,
    empty_mark,
)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_file_that_is_not_the_one_that_was_written_is_refused(
    path: Path, damage: Damage
) -> None:
    damage(path)

    async with opened(path.parents[1]) as store:
        with pytest.raises(StoreReplacedError, match="doctor --accept"):
            await only_organization(store)


async def test_an_older_file_says_what_it_lacks(path: Path) -> None:
    put_older(path)

    async with opened(path.parents[1]) as store:
        with pytest.raises(StoreReplacedError, match="2 commits that appended 1 rows"):
            await only_organization(store)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_file_that_is_accepted_serves_again_and_the_audit_trail_says_so(
    path: Path, damage: Damage
) -> None:
    damage(path)

    async with opened(path.parents[1], accept=True) as store:
        organization = await only_organization(store)
        await begin(organization, "later")

    async with opened(path.parents[1]) as store:
        organization = await only_organization(store)
        assert await findings(organization) == []
        trail = await store.control.list_audit(organization.organization_id, limit=9, before=None)
    assert [row.action for row in trail] == ["accept_file", "create_organization"]


async def test_accepting_a_whole_store_changes_nothing(path: Path) -> None:
    before = Mark(mark_of(path)).read()

    async with opened(path.parents[1], accept=True) as store:
        organization = await only_organization(store)
        trail = await store.control.list_audit(organization.organization_id, limit=9, before=None)

    assert Mark(mark_of(path)).read() == before
    assert [row.action for row in trail] == ["create_organization"]


async def test_the_file_of_another_organisation_is_not_even_accepted(path: Path) -> None:
    directory = path.parents[1]
    async with opened(directory) as store:
        made = await store.control.create_organization(OrganizationDraft(name="B"), actor=ACTOR)
        await store.organization(made.id)
    shutil.copy(path_of(directory, made.id), path)

    async with opened(directory, accept=True) as store:
        found = await asyncio.gather(
            store.organization(OrganizationId(path.stem)), return_exceptions=True
        )

    assert [getattr(error, "code", None) for error in found] == ["store_corrupt"]


async def test_one_damaged_byte_of_a_log_that_a_crash_left_is_noticed(tmp_path: Path) -> None:
    directory, crashed = tmp_path / "store", tmp_path / "crashed"
    async with opened(directory) as store:
        made = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
        organization = await store.organization(made.id)
        for number in range(30):
            await append(organization, f"acknowledged {number}")
        # As a killed process leaves its files: nothing has been checkpointed.
        shutil.copytree(directory, crashed)
    log = path_of(crashed, made.id).with_suffix(".db-wal")
    content = bytearray(log.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    log.write_bytes(content)

    async with opened(crashed) as store:
        with pytest.raises(StoreReplacedError, match="is older than it was"):
            await store.organization(made.id)


async def test_a_crash_between_a_commit_and_its_mark_is_harmless(path: Path) -> None:
    mark = Mark(mark_of(path))
    before = mark.path.read_bytes()
    async with opened(path.parents[1]) as store:
        await begin(await only_organization(store), "committed")
    mark.path.write_bytes(before)

    async with opened(path.parents[1]) as store:
        await begin(await only_organization(store), "later")


@pytest.mark.parametrize("damage", [empty, Path.unlink])
async def test_a_control_file_that_is_gone_is_not_made_anew(path: Path, damage: Damage) -> None:
    damage(path.parents[1] / "engram.db")

    with pytest.raises(StoreReplacedError):
        async with opened(path.parents[1]):
            pass


async def test_a_control_file_is_not_made_where_files_of_organisations_are(path: Path) -> None:
    directory = path.parents[1]
    for name in ("engram.db", "engram.mark"):
        (directory / name).unlink()

    with pytest.raises(StoreReplacedError):
        async with opened(directory):
            pass
    async with opened(directory, accept=True) as store:
        orphans = [finding.message for finding in await store.check_files()]

    assert orphans == [
        f"orgs/{name} belongs to no organisation" for name in (path.name, mark_of(path).name)
    ]


async def test_files_of_a_whole_store_are_all_accounted_for(path: Path) -> None:
    async with opened(path.parents[1]) as store:
        await only_organization(store)

        assert await store.check_files() == []


@pytest.mark.parametrize("name", ["orgs/{}.db", "orgs/{}.db-wal", "engram.db", "engram.db-wal"])
async def test_nothing_is_read_or_written_once_a_file_is_not_in_its_place(
    path: Path, name: str
) -> None:
    directory = path.parents[1]
    async with opened(directory) as store:
        organization = await only_organization(store)
        await begin(organization, "before")
        (directory / name.format(path.stem)).rename(directory / "elsewhere")

        if "orgs" in name:
            for use in (begin(organization, "after"), organization.counters()):
                with pytest.raises(StoreReplacedError):
                    await use
        else:
            draft = OrganizationDraft(name="after")
            uses = (store.control.create_organization(draft, actor=ACTOR), store.control.ping())
            for use in uses:
                with pytest.raises(StoreReplacedError):
                    await use


async def test_a_copy_renamed_over_an_open_file_is_not_written(path: Path) -> None:
    async with opened(path.parents[1]) as store:
        organization = await only_organization(store)
        copy = shutil.copy(path, path.parent / "copy")
        Path(copy).rename(path)

        with pytest.raises(StoreReplacedError, match="restart"):
            await begin(organization, "after")
        with pytest.raises(StoreReplacedError):
            await organization.counters()


async def test_older_content_put_into_an_open_file_is_not_written_to(path: Path) -> None:
    async with opened(path.parents[1]) as store:
        organization = await only_organization(store)
        await asyncio.to_thread(put_older, path)

        with pytest.raises(StoreReplacedError, match="is older than it was"):
            await begin(organization, "after")


async def test_marks_count_what_changes_and_nothing_else(path: Path) -> None:
    mark = Mark(mark_of(path))
    before = mark.read()
    assert before is not None
    async with opened(path.parents[1]) as store:
        organization = await only_organization(store)
        conversation_id = await begin(organization)
        await append(organization, "one", "two", to=conversation_id)
        after = mark.read()
        await organization.postpone_unembedded([], owner="nobody", delay=timedelta(0))
        await organization.counters()

        assert after == mark.read()
    assert after is not None
    assert (after.file_id, after.commits, after.appended) == (
        before.file_id,
        before.commits + 2,
        before.appended + 2,
    )
    assert after.chain != before.chain


async def test_a_mark_keeps_its_newest_record_despite_torn_and_late_writes(tmp_path: Path) -> None:
    mark = Mark(tmp_path / "one.mark")
    positions = [Position(b"f" * 16, commits, commits, b"c" * 32) for commits in range(9)]
    mark.create(positions[0])
    handle = mark.open()
    assert handle is not None
    for position in (*positions[1:4], *positions[5:8], positions[4]):
        handle.put(position)
    handle.close()

    assert mark.read() == positions[7]
    content = bytearray(mark.path.read_bytes())
    content[7 * 128 + 30] ^= 1
    mark.path.write_bytes(content)
    assert mark.read() == positions[6]


async def test_processes_that_write_at_once_leave_a_mark_of_the_last_commit(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for name in ("one", "two"):
                group.start_soon(append_elsewhere, tmp_path, name)

    async with opened(tmp_path) as store:
        assert await findings(await only_organization(store)) == []
    (path,) = (tmp_path / "orgs").glob("*.db")
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute("SELECT file_id, commits, appended, chain FROM meta").fetchone()
    assert Mark(mark_of(path)).read() == Position(*row)
    assert row[2] == 2 * 2 * 25


async def append_elsewhere(directory: Path, name: str) -> None:
    """Append 25 times two messages in another process."""
    program = command("append_and_search", directory, name, 25)
    await anyio.run_process(program, cwd=PROJECT, input=b"\n")


async def test_deleting_an_organisation_removes_its_mark(path: Path) -> None:
    async with opened(path.parents[1]) as store:
        await only_organization(store)
        await store.control.delete_organization(OrganizationId(path.stem), actor=ACTOR)

    assert list(path.parent.iterdir()) == []


async def test_a_directory_that_was_copied_goes_on(path: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(path.parents[1], tmp_path / "copied")

    async with opened(copied) as store:
        organization = await only_organization(store)
        conversation_id = await begin(organization, "there")
        assert await read_texts(organization, conversation_id) == ["there"]

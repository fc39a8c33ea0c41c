"""A directory of files: private, bounded in open files, and in step between processes."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from engram import limits
from engram.clock import RandomIds
from engram.errors import NotFoundError, StorageError, StoreCorruptError, StoreNewerError
from engram.model.access import Organization, OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import OrganizationId
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.organization_files import FileEntry, OrganizationFiles
from engram.storage.sqlite.store import SqliteStore
from engram.storage.threads import WorkerThreads
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import count_holders

ACTOR = "operator"
DRAFT = ConversationDraft(title="kept")

NewStore = Callable[[], SqliteStore]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data" / "engram"


@pytest.fixture
async def new_store(directory: Path) -> AsyncIterator[NewStore]:
    """Yield a function that returns another store of the same directory, as a process would."""
    async with AsyncExitStack() as stack:

        def another() -> SqliteStore:
            store = SqliteStore(directory, clock=FakeClock(), ids=RandomIds())
            stack.push_async_callback(store.close)
            return store

        yield another


@pytest.fixture
async def one(new_store: NewStore) -> SqliteStore:
    store = new_store()
    await store.open()
    return store


@pytest.fixture
async def two(one: SqliteStore, new_store: NewStore) -> SqliteStore:
    store = new_store()
    await store.open()
    return store


@promise("private")
async def test_everything_is_created_for_its_owner_alone(one: SqliteStore, directory: Path) -> None:
    acme = await create(one, "Acme")
    await (await one.organization(acme.id)).create_conversation(DRAFT, actor=ACTOR)

    modes = modes_below(directory)
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert modes[directory / "orgs" / f"{acme.id}.db"] == 0o600


@promise("private")
async def test_opening_is_idempotent_and_stores_share_what_is_there(
    one: SqliteStore, two: SqliteStore
) -> None:
    await one.open()
    acme = await create(one, "Acme")

    await (await one.organization(acme.id)).create_conversation(DRAFT, actor=ACTOR)

    assert (await (await two.organization(acme.id)).counters()).conversations == 1


async def test_an_open_organization_is_the_same_store_again(one: SqliteStore) -> None:
    acme = await create(one, "Acme")

    first, *others = await asyncio.gather(*[one.organization(acme.id) for _ in range(5)])

    assert all(store is first for store in [*others, await one.organization(acme.id)])
    assert first.organization_id == acme.id


async def test_an_unknown_organization_is_not_found_and_leaves_no_file(
    one: SqliteStore, directory: Path
) -> None:
    with pytest.raises(NotFoundError):
        await one.organization(OrganizationId("../engram"))

    assert list((directory / "orgs").iterdir()) == []


async def test_more_organizations_than_may_stay_open_all_work(
    one: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_ORGANIZATIONS_MAX", 2)
    organizations = [await create(one, name) for name in "abcde"]
    held = [await one.organization(organization.id) for organization in organizations]

    for store in held:
        await store.create_conversation(DRAFT, actor=ACTOR)

    for organization in organizations:
        counters = await (await one.organization(organization.id)).counters()
        assert counters.conversations == 1


async def test_the_organization_used_last_stays_open(
    one: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_ORGANIZATIONS_MAX", 2)
    a, b, c = [await create(one, name) for name in "abc"]
    used = await one.organization(a.id)
    unused = await one.organization(b.id)

    await one.organization(a.id)
    await one.organization(c.id)

    assert await one.organization(a.id) is used
    assert await one.organization(b.id) is not unused


async def test_a_deleted_organization_is_gone_in_every_process(
    one: SqliteStore, two: SqliteStore, directory: Path
) -> None:
    acme = await create(one, "Acme")
    held = [await store.organization(acme.id) for store in (one, two)]
    for store in held:
        await store.create_conversation(DRAFT, actor=ACTOR)

    await one.control.delete_organization(acme.id, actor=ACTOR)

    assert list((directory / "orgs").iterdir()) == []
    for store in held:
        with pytest.raises(NotFoundError):
            await store.counters()
        with pytest.raises(NotFoundError):
            await store.create_conversation(DRAFT, actor=ACTOR)
    for installation in (one, two):
        with pytest.raises(NotFoundError):
            await installation.organization(acme.id)
    assert list((directory / "orgs").iterdir()) == []


async def test_a_number_is_never_given_twice(one: SqliteStore, directory: Path) -> None:
    first = await create(one, "first")
    await one.organization(first.id)
    await one.control.delete_organization(first.id, actor=ACTOR)

    second = await create(one, "second")
    await one.organization(second.id)

    with closing(sqlite3.connect(directory / "orgs" / f"{second.id}.db")) as connection:
        assert connection.execute("SELECT organization_id FROM meta").fetchall() == [(2,)]


async def test_writes_beside_a_deletion_are_refused_once_it_is_done(
    one: SqliteStore, two: SqliteStore
) -> None:
    acme = await create(one, "Acme")
    held = await two.organization(acme.id)
    is_deleted = False
    late: list[str] = []

    async def write_on() -> None:
        while True:
            began_after = is_deleted
            await held.create_conversation(DRAFT, actor=ACTOR)
            if began_after:
                late.append("acknowledged")

    writers = [asyncio.create_task(write_on()) for _ in range(4)]
    await one.control.delete_organization(acme.id, actor=ACTOR)
    is_deleted = True
    outcomes = await asyncio.gather(*writers, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [NotFoundError] * 4
    assert late == []


async def test_a_file_left_by_a_crash_during_deletion_is_removed_at_the_next_opening(
    one: SqliteStore, new_store: NewStore, directory: Path
) -> None:
    acme = await create(one, "Acme")
    await one.organization(acme.id)
    with closing(sqlite3.connect(directory / "engram.db", isolation_level=None)) as connection:
        # What a process that dies after its first transaction leaves behind.
        connection.execute("INSERT INTO removal SELECT number, organization_id FROM organization")
        connection.execute("DELETE FROM organization")

    await new_store().open()

    assert list((directory / "orgs").iterdir()) == []
    with closing(sqlite3.connect(directory / "engram.db")) as connection:
        assert connection.execute("SELECT * FROM removal").fetchall() == []


async def test_a_leftover_that_cannot_be_removed_does_not_close_the_store(
    one: SqliteStore, new_store: NewStore, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (directory / "orgs" / "org_gone.db").mkdir()
    with closing(sqlite3.connect(directory / "engram.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO removal VALUES (99, 'org_gone')")
    again = new_store()

    await again.open()

    assert "deleted organisations" in caplog.text
    assert await again.control.list_organizations() == ()


@promise("failures")
async def test_a_missing_file_is_a_loss_and_not_a_new_start(
    one: SqliteStore, new_store: NewStore, directory: Path
) -> None:
    acme = await create(one, "Acme")
    await one.organization(acme.id)
    await one.close()
    (directory / "orgs" / f"{acme.id}.db").unlink()
    again = new_store()
    await again.open()

    with pytest.raises(StoreCorruptError):
        await again.organization(acme.id)

    assert list((directory / "orgs").glob("*.db")) == []


@promise("failures")
async def test_a_file_in_another_ones_place_is_refused(
    one: SqliteStore, new_store: NewStore, directory: Path
) -> None:
    acme, other = await create(one, "Acme"), await create(one, "Other")
    for organization in (acme, other):
        await one.organization(organization.id)
    await one.close()
    shutil.copy(directory / "orgs" / f"{acme.id}.db", directory / "orgs" / f"{other.id}.db")
    again = new_store()
    await again.open()

    await again.organization(acme.id)
    with pytest.raises(StoreCorruptError):
        await again.organization(other.id)


async def test_newer_files_are_refused(
    one: SqliteStore, new_store: NewStore, directory: Path
) -> None:
    acme = await create(one, "Acme")
    await one.organization(acme.id)
    await one.close()

    again = new_store()
    await again.open()
    make_newer(directory / "orgs" / f"{acme.id}.db")
    with pytest.raises(StoreNewerError):
        await again.organization(acme.id)

    make_newer(directory / "engram.db")
    with pytest.raises(StoreNewerError):
        await new_store().open()


async def test_an_organization_with_a_damaged_file_can_be_deleted(
    one: SqliteStore, directory: Path
) -> None:
    acme = await create(one, "Acme")
    (directory / "orgs" / f"{acme.id}.db").write_bytes(b"no database " * 1_000)

    await one.control.delete_organization(acme.id, actor=ACTOR)

    assert list((directory / "orgs").iterdir()) == []


@pytest.mark.parametrize("has_file", [True, False])
async def test_an_organization_deleted_while_it_is_opened_is_not_found_and_leaves_no_file(
    one: SqliteStore, directory: Path, threads: WorkerThreads, *, has_file: bool
) -> None:
    acme = await create(one, "Acme")
    if has_file:
        await one.organization(acme.id)
    control = SqliteFile(directory / "engram.db", kind="control", threads=threads)
    files = OvertakenFiles(directory / "orgs", control=control, threads=threads)
    files.other = one

    with pytest.raises(NotFoundError):
        await files.open(acme.id)

    assert list((directory / "orgs").iterdir()) == []


async def test_an_organization_whose_words_a_newer_program_built_is_refused(
    one: SqliteStore, new_store: NewStore, directory: Path
) -> None:
    acme = await create(one, "Acme")
    await one.organization(acme.id)
    await one.close()
    path = directory / "orgs" / f"{acme.id}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE upkeep SET analyser_version = 9999")
    again = new_store()
    await again.open()

    with pytest.raises(StoreNewerError):
        await again.organization(acme.id)


async def test_stores_that_open_together_bring_old_words_forward_together(
    one: SqliteStore, new_store: NewStore, directory: Path
) -> None:
    acme = await create(one, "Acme")
    organization = await one.organization(acme.id)
    for text in ("tanuki are tricksters", "kitsune are foxes"):
        await organization.append_messages(a_request(text), actor=ACTOR, quota=Quota())
    await one.close()
    path = directory / "orgs" / f"{acme.id}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE upkeep SET analyser_version = 0")
    stores = [new_store() for _ in range(4)]
    for store in stores:
        await store.open()

    opened = await asyncio.gather(*[store.organization(acme.id) for store in stores])

    for organization in opened:
        assert await count_holders(organization, "tanuki") == 1
        assert [finding async for finding in organization.verify()] == []


async def test_a_closed_store_refuses_work(one: SqliteStore) -> None:
    acme = await create(one, "Acme")
    held = await one.organization(acme.id)

    await one.close()

    with pytest.raises(StorageError):
        await held.counters()
    with pytest.raises(StorageError):
        await one.control.list_organizations()


class OvertakenFiles(OrganizationFiles):
    """Files whose organisations are deleted by another process right after they were looked up."""

    other: SqliteStore

    async def find(self, organization_id: OrganizationId) -> FileEntry:
        entry = await super().find(organization_id)
        await self.other.control.delete_organization(organization_id, actor=ACTOR)
        return entry


def a_request(text: str) -> AppendRequest:
    return AppendRequest(messages=(MessageDraft(role="user", content=text),))


def make_newer(path: Path) -> None:
    """Let a file look as if a later version had written it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9999")


def modes_below(directory: Path) -> dict[Path, int]:
    """Return the permissions of a directory and of everything in it."""
    return {path: path.stat().st_mode & 0o777 for path in (directory, *directory.rglob("*"))}


async def create(store: SqliteStore, name: str) -> Organization:
    return await store.control.create_organization(OrganizationDraft(name=name), actor=ACTOR)

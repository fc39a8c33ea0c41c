"""Stores and files for the storage tests; the contract suite runs on every backend named here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from engram.clock import RandomIds
from engram.model.access import OrganizationDraft
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.file import FileOwner, SqliteFile
from engram.storage.store import Store
from engram.storage.threads import WorkerThreads
from tests.fakes import FakeClock, SequentialIds
from tests.postgres.further_stores import (
    direct_url,
    home_url,
    pooler_url,
    second_server,
    session_pooler,
)
from tests.storage.drafts import BuildStore
from tests.storage.notes import ORGANIZATION, create_notes
from tests.storage.places import DATABASES, place

__all__ = ["home_url", "place", "pooler_url", "second_server", "session_pooler"]
"""Fixtures of other modules."""

BACKENDS = ("sqlite", "postgres")
EVERY_STORE = ("sqlite", *DATABASES)
AT_EVERY_STORE = {
    "test_append",
    "test_due",
    "test_idempotency",
    "test_jobs",
    "test_memories",
    "test_words",
}
"""Modules that run on all of them in every run; with `--every-store`, which `make contract` sets, all do."""

CONTROL = "test_control"
"""Organisations as the control database has them, whose rows are the same wherever theirs are."""

OpenFile = Callable[[], Awaitable[SqliteFile]]


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that choose no store themselves on further ones."""
    is_wanted, module = metafunc.config.getoption("every_store"), metafunc.definition.path.stem
    if not is_wanted and module not in AT_EVERY_STORE:
        return
    stores = [each for each in EVERY_STORE if module != CONTROL or each != "home"]
    chosen = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    for name in {"build_store", "place"}.intersection(metafunc.fixturenames) - chosen:
        # As a mark, which takes the place of the fixture's own parameters.
        metafunc.definition.add_marker(pytest.mark.parametrize(name, stores, indirect=True))


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


@pytest.fixture(params=BACKENDS)
def build_store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> BuildStore:
    """Return what builds a store on the same, at first empty data, of each backend."""
    if request.param == "sqlite":
        from engram.storage.sqlite.store import SqliteStore

        return lambda ids: SqliteStore(tmp_path / "store", clock=clock, ids=ids)
    from engram.storage.postgres.store import PostgresStore

    url: str = request.getfixturevalue(DATABASES[request.param])
    return lambda ids: PostgresStore(url, clock=clock, ids=ids, direct_url=direct_url())


@pytest.fixture
async def store(build_store: BuildStore) -> AsyncIterator[Store]:
    """Yield an open, empty store of each backend."""
    opened = build_store(SequentialIds())
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def organization(store: Store) -> OrganizationStore:
    """Return the empty store of a new organisation."""
    created = await store.control.create_organization(OrganizationDraft(name="Acme"), actor="test")
    return await store.organization(created.id)


@pytest.fixture
async def other(store: Store) -> OrganizationStore:
    """Return the empty store of another organisation of the same installation."""
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor="test")
    return await store.organization(created.id)


@pytest.fixture
async def elsewhere(
    organization: OrganizationStore, build_store: BuildStore
) -> AsyncIterator[OrganizationStore]:
    """Yield the same organisation as another process has it, which remembers other things."""
    opened = build_store(RandomIds())
    await opened.open()
    yield await opened.organization(organization.organization_id)
    await opened.close()


@pytest.fixture
def threads() -> Iterator[WorkerThreads]:
    """Yield the threads in which a file's reads run."""
    threads = WorkerThreads(4)
    yield threads
    threads.stop()


@pytest.fixture
async def open_file(tmp_path: Path, threads: WorkerThreads) -> AsyncIterator[OpenFile]:
    """Yield a function that opens the same organisation's file again, as another process would."""
    async with AsyncExitStack() as stack:

        async def open_again() -> SqliteFile:
            owner = FileOwner(1, ORGANIZATION)
            path = tmp_path / "one.db"
            file = SqliteFile(path, kind="organization", threads=threads, owner=owner)
            await file.open(create=True)
            stack.push_async_callback(file.close)
            return file

        yield open_again


@pytest.fixture
async def file(open_file: OpenFile) -> SqliteFile:
    """Return an open file with an empty table `note`."""
    file = await open_file()
    await file.write(create_notes)
    return file

"""Notices of new work between processes that share a directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from engram import limits
from engram.clock import RandomIds
from engram.model.ids import OrganizationId
from engram.model.status import Change, WorkAdded
from engram.storage.sqlite.notices import FILE_NAME
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock

ACME, OTHER = OrganizationId("org_acme"), OrganizationId("org_other")
PATIENCE_S = 120


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have processes help each other at once."""
    monkeypatch.setattr(limits, "NOTICE_HELP_S", -1)
    monkeypatch.setattr(limits, "NOTICE_S", 0.01)


async def opened(directory: Path) -> SqliteStore:
    store = SqliteStore(directory, clock=FakeClock(), ids=RandomIds())
    await store.open()
    return store


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await opened(tmp_path)
    yield store
    await store.close()


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await opened(tmp_path)
    yield store
    await store.close()


async def test_the_work_of_others_is_heard_of_and_none_of_this_process(
    here: SqliteStore, there: SqliteStore
) -> None:
    changes = list[Change]()
    async with aclosing(here.changes()) as heard, anyio.create_task_group() as senders:
        senders.start_soon(announce_until_heard, here, OTHER, senders.cancel_scope)
        senders.start_soon(announce_until_heard, there, ACME, senders.cancel_scope)
        with anyio.fail_after(PATIENCE_S):
            changes += [await anext(heard) for _ in range(3)]
        senders.cancel_scope.cancel()

    assert changes == [WorkAdded(ACME)] * 3


async def announce_until_heard(
    store: SqliteStore, organization_id: OrganizationId, scope: anyio.CancelScope
) -> None:
    """Announce again and again: what comes before the first look is not heard."""
    while not scope.cancel_called:
        store.announce(organization_id)
        await anyio.sleep(0.01)


async def test_a_process_that_ends_sends_what_it_has_not_sent(
    here: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NOTICE_S", 1_000)
    short = await opened(tmp_path)
    short.announce(ACME)
    short.announce(OTHER)

    await short.close()

    lines = (tmp_path / FILE_NAME).read_text().splitlines()
    assert {line.split()[1] for line in lines} == {ACME, OTHER}


async def test_the_file_of_notices_does_not_grow_without_bound(
    here: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NOTICES_BYTES_MAX", 1_000)
    for number in range(40):
        short = await opened(tmp_path)
        short.announce(OrganizationId(f"org_{number}"))
        await short.close()

    assert 0 < (tmp_path / FILE_NAME).stat().st_size < 1_100


async def test_a_directory_that_cannot_be_written_costs_only_the_notice(
    here: SqliteStore, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).mkdir()

    here.announce(ACME)
    await here.close()

    assert (tmp_path / FILE_NAME).is_dir()

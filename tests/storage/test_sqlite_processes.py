"""Several processes on one store: nobody is refused, nothing is lost, also when they are killed."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from engram.clock import RandomIds, SystemClock
from engram.model.access import OrganizationDraft
from engram.storage.sqlite.store import SqliteStore
from tests.promises import promise
from tests.storage.conftest import OpenFile
from tests.storage.notes import texts
from tests.storage.places import store_at
from tests.storage.processes import PROJECT, all_messages, command

pytestmark = promise("processes")

PROCESSES = 8
ROUNDS = 25
KILLS = 50


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """Yield the store the processes use, not opened yet."""
    store = SqliteStore(tmp_path / "store", clock=SystemClock(), ids=RandomIds())
    yield store
    await store.close()


@promise("migrations")
async def test_eight_processes_create_migrate_and_write_one_file_at_once(
    tmp_path: Path, open_file: OpenFile
) -> None:
    await anyio.to_thread.run_sync(run_together, "write_notes", tmp_path / "one.db")

    assert await texts(await open_file()) == sorted(
        f"p{process} {number} {part}"
        for process in range(PROCESSES)
        for number in range(ROUNDS)
        for part in "ab"
    )


async def test_eight_processes_append_to_and_search_one_organization_at_once(
    place: str,
) -> None:
    await anyio.to_thread.run_sync(run_together, "append_and_search", place)

    store = store_at(place, clock=SystemClock())
    await store.open()
    (local,) = await store.control.list_organizations()
    organization = await store.organization(local.id)
    messages = await all_messages(organization)
    assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
    assert sorted(message.content for message in messages) == sorted(
        f"p{process}number{number} part {part}"
        for process in range(PROCESSES)
        for number in range(ROUNDS)
        for part in range(2)
    )
    assert [finding async for finding in organization.verify()] == []
    await store.close()


@promise("durable", kills=2 * KILLS)
@pytest.mark.parametrize("is_held", [True, False], ids=["beside another", "alone"])
async def test_what_a_killed_process_acknowledged_is_there(
    tmp_path: Path, store: SqliteStore, *, is_held: bool
) -> None:
    first = SqliteStore(tmp_path / "store", clock=SystemClock(), ids=RandomIds())
    await first.open()
    local = await first.control.create_organization(OrganizationDraft(name="local"), actor="test")
    await first.organization(local.id)
    if not is_held:
        # Now each process has to recover the log of the one killed before it.
        await first.close()

    answer = await anyio.run_process(
        command("killed_appends", tmp_path / "store", local.id, KILLS), cwd=PROJECT
    )

    acknowledged = answer.stdout.decode().splitlines()
    await first.close()
    await store.open()
    organization = await store.organization(local.id)
    messages = await all_messages(organization)
    stored = [message.content for message in messages]
    assert len(acknowledged) >= KILLS
    assert set(acknowledged) <= set(stored)
    assert len(set(stored)) == len(stored)
    assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
    assert [finding async for finding in organization.verify()] == []


def run_together(program: str, place: object) -> None:
    """Run a program in eight processes that begin at the same moment, and expect no complaint."""
    processes = [start(command(program, place, f"p{i}", ROUNDS)) for i in range(PROCESSES)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    complaints = [process.communicate(timeout=120)[1] for process in processes]
    assert complaints == [""] * PROCESSES
    assert [process.returncode for process in processes] == [0] * PROCESSES


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

"""Processes that append, embed, delete, reindex and train at once leave a store that is whole."""

from __future__ import annotations

import random
import subprocess
from collections.abc import AsyncIterator

import anyio
import pytest

from engram.clock import SystemClock
from engram.model.access import OrganizationDraft
from engram.model.ids import OrganizationId
from engram.storage.organization import OrganizationStore
from tests.promises import promise
from tests.storage.drafts import findings
from tests.storage.places import store_at
from tests.storage.processes import PROJECT, command

PROCESSES = 4
ROUNDS = 40
KILLS = 12


@pytest.fixture
async def organization(place: str) -> AsyncIterator[OrganizationStore]:
    """Yield the organisation on which the processes work."""
    store = store_at(place, clock=SystemClock())
    await store.open()
    created = await store.control.create_organization(OrganizationDraft(name="x"), actor="test")
    yield await store.organization(created.id)
    await store.close()


@promise("processes", rounds=PROCESSES * ROUNDS)
async def test_a_store_stays_whole_under_all_kinds_of_work_at_once(
    place: str, organization: OrganizationStore
) -> None:
    processes = [
        start(place, organization.organization_id, f"p{number}", ROUNDS)
        for number in range(PROCESSES)
    ]

    complaints = await anyio.to_thread.run_sync(
        lambda: [process.communicate(timeout=120)[1] for process in processes]
    )

    assert complaints == [""] * PROCESSES
    assert [process.returncode for process in processes] == [0] * PROCESSES
    assert await findings(organization) == []


@promise("durable", "processes", kills=KILLS)
async def test_a_store_stays_whole_when_such_work_is_killed(
    place: str, organization: OrganizationStore
) -> None:
    await anyio.to_thread.run_sync(kill_one_after_the_other, place, organization.organization_id)

    assert await findings(organization) == []
    await organization.reindex()
    assert await findings(organization) == []


def kill_one_after_the_other(place: str, organization_id: OrganizationId) -> None:
    """Start workers two at a time, and kill each after some of its work is done."""
    moments = random.Random(0)  # noqa: S311 - moments, not secrets
    for number in range(0, KILLS, 2):
        pair = [start(place, organization_id, f"p{number + offset}", 10_000) for offset in range(2)]
        for process in pair:
            assert process.stdout is not None
            for _ in range(moments.randrange(1, 25)):
                process.stdout.readline()
            process.kill()
        for process in pair:
            assert process.communicate(timeout=60)[1] == ""


def start(
    place: str, organization_id: OrganizationId, name: str, rounds: int
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("mixed_work", place, organization_id, name, rounds),
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

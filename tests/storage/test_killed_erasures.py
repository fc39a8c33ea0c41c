"""Erasures whose processes are killed: the next one goes on, and everything is counted once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engram.clock import RandomIds, SystemClock
from engram.model.access import OrganizationDraft
from engram.model.erasure import ErasureRequest
from engram.model.ids import OrganizationId
from engram.model.memory import MemoryDraft
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.promises import promise
from tests.storage.drafts import ACTOR, begin, find, findings, read_texts
from tests.storage.erasures import finish, places_of, unique_word
from tests.storage.memory_drafts import store as store_memories
from tests.storage.processes import PROJECT, command

WORD = unique_word(1)
CONVERSATIONS, MEMORIES = 12, 8


async def fill(organization: OrganizationStore) -> None:
    for number in range(CONVERSATIONS):
        await begin(organization, *(f"{WORD} {number} {place}" for place in range(30)), project="a")
    drafts = [MemoryDraft(content=f"note {WORD} {each}", project="a") for each in range(MEMORIES)]
    await store_memories(organization, *drafts)


def erase_and_die(
    place: Path, organization_id: OrganizationId, erasure: str, *, after: int
) -> None:
    """Run a process that erases, and kill it after it has said `after` times that it went on."""
    arguments = command("erase", place, organization_id, erasure)
    with subprocess.Popen(arguments, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(after):
            assert process.stdout.readline()
        process.kill()


@promise("erasure")
@pytest.mark.parametrize("kills", [(1, 2, 3), (1, 4, 1)])
async def test_an_erasure_survives_the_death_of_its_processes(
    tmp_path: Path, kills: tuple[int, ...]
) -> None:
    store = SqliteStore(tmp_path / "store", clock=SystemClock(), ids=RandomIds())
    await store.open()
    made = await store.control.create_organization(OrganizationDraft(name="a"), actor=ACTOR)
    organization = await store.organization(made.id)
    kept = await begin(organization, "stays here")
    await fill(organization)
    receipt = await organization.erasing.begin(ErasureRequest(project="a"), actor=ACTOR)

    for after in kills:
        erase_and_die(tmp_path / "store", made.id, receipt.id, after=after)
        assert await findings(organization) == []
    done = await finish(organization, receipt.id)

    assert {**done.removed, "vectors": 0} == {
        "conversations": CONVERSATIONS,
        "messages": 30 * CONVERSATIONS,
        "memories": MEMORIES,
        "vectors": 0,
    }
    assert places_of(tmp_path, WORD.encode()) == []
    assert not len((await find(organization, WORD)).keys)
    assert await read_texts(organization, kept) == ["stays here"]
    assert await findings(organization) == []
    await store.close()

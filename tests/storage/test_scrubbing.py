"""The scrubber's passes: everything is read, by one process at a time, from where the last one stopped."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from engram import limits
from engram.model.memory import MemoryChange
from engram.storage.checks.scrubbing import ScrubProgress
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.storage import document_drafts, memory_drafts
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, damage

LEASE = timedelta(minutes=5)
PASS = timedelta(days=limits.SCRUB_DAYS)

DAMAGE = {
    "a text": "UPDATE message SET content = 'changed' WHERE characters < 9",
    "a name": "UPDATE message SET name = 'Mallory'",
    "a title": "UPDATE conversation SET title = 'changed'",
    "a version": "UPDATE memory_version SET content = 'changed' WHERE content IS NOT NULL",
    "a memory": "UPDATE memory SET importance = 0",
    "a body": "UPDATE document_piece SET sha256 = zeroblob(32)",
    "what is in the trash": "UPDATE trash_part SET content = zeroblob(9) WHERE position = 1",
}


@pytest.fixture
async def furnished(organization: OrganizationStore) -> OrganizationStore:
    """Return a store with messages of every length, a memory with a version, a document, and a trash."""
    conversation_id = await begin(organization, "apple", "pear")
    await append(organization, "x" * limits.SCRUB_STEP_CHARACTERS, "plum", to=conversation_id)
    memory_id = await memory_drafts.note(organization, "apples are red")
    change = MemoryChange(content="apples are green")
    await organization.memories.correct(memory_id, change, actor=ACTOR, quota=UNBOUNDED)
    await document_drafts.store(organization, "# Fruit\n\nApples.", name="fruit.md")
    thrown = await begin(organization, "rotten")
    await organization.trash.trash_conversation(thrown, actor=ACTOR, keep=PASS)
    return organization


async def claim(organization: OrganizationStore, owner: str = "me") -> ScrubProgress | None:
    return await organization.scrubbing.claim_scrub(owner=owner, lease=LEASE)


async def read_on(
    organization: OrganizationStore, progress: ScrubProgress, *, steps: int = 1_000
) -> ScrubProgress:
    """Read some steps, and give the lease back."""
    for _ in range(steps):
        if progress.table is None:
            break
        _, progress = await organization.scrubbing.scrub_step(progress)
    assert await organization.scrubbing.put_scrub(progress, owner="me")
    return progress


async def test_a_pass_over_a_sound_store_says_when_it_finished(
    furnished: OrganizationStore, clock: FakeClock
) -> None:
    assert (await furnished.scrubbing.scrub_state()).finished_at is None
    progress = await claim(furnished)
    assert progress is not None

    done = await read_on(furnished, progress)

    state = await furnished.scrubbing.scrub_state()
    assert done.rows > 8
    assert (state.finished_at, state.faults, state.found) == (clock.now(), 0, ())


async def test_a_pass_is_due_again_after_some_days(
    furnished: OrganizationStore, clock: FakeClock
) -> None:
    progress = await claim(furnished)
    assert progress is not None
    await read_on(furnished, progress)

    assert await claim(furnished) is None
    clock.advance(PASS)

    assert await claim(furnished) == ScrubProgress(table="conversation")


@pytest.mark.parametrize("kind", DAMAGE)
async def test_damage_is_found_by_the_next_pass_and_stays_visible(
    furnished: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    damage(tmp_path, furnished, DAMAGE[kind])
    progress = await claim(furnished)
    assert progress is not None

    await read_on(furnished, progress)

    state = await furnished.scrubbing.scrub_state()
    assert state.faults > 0
    assert state.found


async def test_one_process_at_a_time_reads_and_another_goes_on_when_it_is_gone(
    furnished: OrganizationStore, clock: FakeClock
) -> None:
    progress = await claim(furnished)
    assert progress is not None
    stopped = await read_on(furnished, progress, steps=3)
    assert await claim(furnished, "dies") == stopped

    assert await claim(furnished, "other") is None
    clock.advance(LEASE)

    assert await claim(furnished, "other") == stopped
    assert not await furnished.scrubbing.put_scrub(progress, owner="dies")


async def test_a_pass_in_many_slices_reads_each_row_once(
    furnished: OrganizationStore,
) -> None:
    whole = await claim(furnished)
    assert whole is not None
    rows = (await read_on(furnished, whole)).rows

    await furnished.tenant.write(
        lambda tx: tx.execute(
            "UPDATE upkeep SET scrub_finished_at = NULL WHERE organization_id = :organization_id"
        )
    )
    slices, progress = 0, ScrubProgress(table="conversation")
    while progress.table is not None:
        claimed = await claim(furnished)
        assert claimed is not None
        progress = await read_on(furnished, claimed, steps=1)
        slices += 1

    assert progress.rows == rows
    assert slices > 10


async def test_a_lease_of_a_clock_that_was_days_ahead_does_not_stop_scrubbing(
    furnished: OrganizationStore, clock: FakeClock
) -> None:
    clock.advance(timedelta(days=2))
    assert await claim(furnished, "ahead")
    clock.advance(timedelta(days=-2))

    assert await claim(furnished, "other")

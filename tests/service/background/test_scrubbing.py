"""The scrubber: bounded in its rate, loud about damage, and a slice at a time."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from engram.service.access.usage import Activity
from engram.service.work.scrubbing import Scrubber
from engram.storage.organization import OrganizationStore
from tests.service.background.test_background import Workplace, workplace
from tests.storage.drafts import ACTOR, UNBOUNDED, damage

RATE = 10_000
TEXT_BYTES = 50_000


class Sleeper:
    """Sleeps in no time, and adds up what it should have slept."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    async def __call__(self, seconds: float) -> None:
        self.slept_s += seconds


def scrubber_of(place: Workplace, sleeper: Sleeper, activity: Activity) -> Scrubber:
    return Scrubber(
        place.store,
        owner="this process",
        clock=place.clock,
        activity=activity,
        bytes_per_s=RATE,
        sleep=sleeper,
    )


async def fill(store: OrganizationStore) -> None:
    """Store a text that cannot be compressed much, in letters that differ."""
    text = "".join(chr(0x4E00 + number * 7_919 % 20_000) for number in range(TEXT_BYTES // 3))
    request = AppendRequest(messages=(MessageDraft(role="user", content=text),))
    await store.append_messages(request, actor=ACTOR, quota=UNBOUNDED)


async def test_everything_is_read_at_the_rate_that_is_set(tmp_path: Path) -> None:
    sleeper, activity = Sleeper(), Activity()
    async with workplace(tmp_path / "store") as place:
        store = await place.jobs()
        await fill(store)
        scrubber = scrubber_of(place, sleeper, activity)

        scrubber.queue.add(place.organization.id)
        assert await scrubber.work_queued() == 1
        assert await scrubber.work_queued() == 0

        assert (await store.scrubbing.scrub_state()).finished_at == place.clock.now()
    assert activity.scrubbed_bytes > TEXT_BYTES // 4
    assert sleeper.slept_s == pytest.approx(activity.scrubbed_bytes / RATE)
    assert activity.scrub_finished_s == place.clock.now().timestamp()


async def test_damage_is_an_error_in_the_log_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    activity = Activity()
    async with workplace(tmp_path / "store") as place:
        store = await place.jobs()
        await fill(store)
        damage(tmp_path, store, "UPDATE message SET name = 'Mallory'")

        with caplog.at_level(logging.ERROR):
            await scrubber_of(place, Sleeper(), activity).work(place.organization.id)

    assert activity.scrub_faults == 1
    assert "message 1 of conv_" in caplog.text


async def test_an_organisation_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    async with workplace(tmp_path / "store") as place:
        scrubber = scrubber_of(place, Sleeper(), Activity())

        assert not await scrubber.work(OrganizationId("org_nobody"))


async def test_rows_of_an_older_version_are_hashed_by_the_first_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workplace(tmp_path / "store") as place:
        store = await place.jobs()
        await fill(store)
        damage(tmp_path, store, "UPDATE message SET row_hash = NULL")

        with caplog.at_level(logging.INFO):
            await scrubber_of(place, Sleeper(), Activity()).work(place.organization.id)

        assert await store.scrubbing.count_unhashed() == 0
    assert "1 rows of organisation" in caplog.text

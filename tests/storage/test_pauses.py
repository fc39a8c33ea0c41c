"""Long work pauses for the requests of other organisations, but not while it holds a write lock."""

from __future__ import annotations

import pytest

from engram import yielding
from engram.storage.organization import OrganizationStore
from engram.yielding import WORK_S, serving
from tests.fakes import Time


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time()
    monkeypatch.setattr(yielding, "time", fake)
    return fake


async def test_a_writer_pauses_for_nobody(organization: OrganizationStore, time: Time) -> None:
    tenant = organization._tenant  # pyright: ignore[reportPrivateUsage] no port runs any work

    with serving("org_other"), serving(tenant.id):
        await tenant.write(lambda _: time.work(2 * WORK_S))

    assert time.slept_s == 0


async def test_a_reader_pauses_for_others_and_not_for_its_own(
    organization: OrganizationStore, time: Time
) -> None:
    tenant = organization._tenant  # pyright: ignore[reportPrivateUsage] no port runs any work

    with serving(tenant.id):
        await tenant.read(lambda _: time.work(2 * WORK_S))
        assert time.slept_s == 0

        with serving("org_other"), serving(tenant.id):
            await tenant.read(lambda _: time.work(2 * WORK_S))

    assert time.slept_s > 0

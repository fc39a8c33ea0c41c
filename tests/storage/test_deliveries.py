"""The log of what agents were told: the newest rows of one organisation, and no more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from engram import limits
from engram.model.value import replace
from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY
from tests.storage.deliveries import told


async def test_deliveries_are_listed_newest_first(organization: OrganizationStore) -> None:
    await organization.record_deliveries(told("a"))
    await organization.record_deliveries(told("b", after_s=5))

    listed = await organization.list_deliveries(limit=10)

    assert listed == (told("b", after_s=5), told("a"))
    before = SOME_DAY + timedelta(seconds=5)
    assert await organization.list_deliveries(limit=10, before=before) == (told("a"),)
    assert [] == [finding async for finding in organization.verify()]


async def test_a_clock_that_goes_back_keeps_the_order(organization: OrganizationStore) -> None:
    await organization.record_deliveries(told("a", after_s=60))
    await organization.record_deliveries(told("b"))

    listed = await organization.list_deliveries(limit=10)

    assert ["b", "a"] == [each.session for each in listed]


async def test_the_oldest_rows_beyond_the_bound_are_dropped(
    organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DELIVERIES_KEPT", 2)
    for session in "abcd":
        await organization.record_deliveries(told(session))

    assert ["d", "c"] == [each.session for each in await organization.list_deliveries(limit=10)]


async def test_another_organisation_sees_none(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await organization.record_deliveries(told("a"))

    assert await other.list_deliveries(limit=10) == ()


async def test_deliveries_are_filtered_before_they_are_counted(
    organization: OrganizationStore,
) -> None:
    asked = [replace(told(f"q{place}", after_s=place), event="search") for place in range(3)]
    other = replace(told("c", after_s=9), client="codex")
    await organization.record_deliveries(told("a"), *asked, other)

    async def sessions(**wanted: Any) -> list[str]:
        return [each.session for each in await organization.list_deliveries(limit=2, **wanted)]

    assert await sessions(client="claude") == ["q2", "q1"]
    assert await sessions(client="codex") == ["c"]
    assert await sessions(events=("prompt",)) == ["c", "a"]
    assert await sessions(events=("search", "prompt"), client="claude") == ["q2", "q1"]
    assert await sessions(client="nobody") == []


async def test_deliveries_add_up_by_day(organization: OrganizationStore) -> None:
    day_s = 86_400
    await organization.record_deliveries(
        told("a"), told("b", after_s=1), told("c", after_s=3 * day_s)
    )
    first = SOME_DAY.date()

    days = await organization.delivered_by_day(since=first)

    assert [(each.day - first, each.deliveries, each.tokens) for each in days] == [
        (timedelta(days=3), 1, 300),
        (timedelta(0), 2, 600),
    ]
    later = await organization.delivered_by_day(since=first + timedelta(days=1))
    assert [each.deliveries for each in later] == [1]

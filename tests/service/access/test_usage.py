"""What organisations do by day: counted in memory, written down later, and never lost to a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date, timedelta
from pathlib import Path

import pytest
from msgspec.structs import asdict

from engram.embedding.choice import Hashed
from engram.errors import InvalidRequestError, QuotaExceededError, StorageError
from engram.model.access import OrganizationChange, OrganizationDraft, Principal, Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from engram.model.search import SearchRequest
from engram.model.status import UsageDay
from engram.service import Service
from engram.service.access.usage import UsageMeter
from engram.settings import Settings
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import open_service
from tests.fakes import FakeClock, SequentialIds
from tests.promises import promise

TODAY = date(2026, 5, 8)


class House:
    """One store used by two processes' services, on one clock."""

    def __init__(self, first: Service, second: Service, clock: FakeClock) -> None:
        self.first = first
        self.second = second
        self.clock = clock

    async def tenant(self, quota: Quota | None = None) -> tuple[str, Principal]:
        draft = OrganizationDraft(name="acme", **asdict(quota or Quota()))
        _, key = await self.first.operator.create_organization(draft)
        return key.secret, await self.first.access.authenticate(key.secret)

    async def days(self, principal: Principal, *, days: int = 30) -> tuple[UsageDay, ...]:
        return (await self.second.account.usage(principal, days=days)).days


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    clock, ids = FakeClock(), SequentialIds()
    settings = Settings(home=tmp_path, embedder=Hashed())
    async with AsyncExitStack() as stack:
        services = [
            await stack.enter_async_context(open_service(settings, clock=clock, ids=ids))
            for _ in range(2)
        ]
        yield House(services[0], services[1], clock)


async def say(service: Service, principal: Principal, *texts: str) -> None:
    messages = tuple(MessageDraft(role="user", content=text) for text in texts)
    await service.conversations.append_messages(principal, AppendRequest(messages=messages))


async def test_requests_searches_messages_texts_and_bytes_are_told_by_day(house: House) -> None:
    _, principal = await house.tenant()
    for _ in range(3):
        house.first.access.take_request(principal)
    await say(house.first, principal, "one", "two")
    await house.first.search.search(principal, SearchRequest(query="one"))
    assert await house.days(principal) == ()

    await house.first.record_use()

    usage = await house.second.account.usage(principal)
    assert usage.days == (
        UsageDay(
            day=TODAY,
            requests=3,
            searches=1,
            messages=2,
            embedded_texts=2,
            stored_bytes=usage.stored_bytes,
        ),
    )
    assert usage.stored_bytes > usage.content_bytes == 6


async def test_processes_add_to_one_day_and_the_newest_comes_first(house: House) -> None:
    _, principal = await house.tenant()
    for service in (house.first, house.second):
        service.access.take_request(principal)
        await service.record_use()
    house.clock.advance(timedelta(days=1))
    house.first.access.take_request(principal)
    await house.first.record_use()

    told = await house.days(principal)

    assert [(each.day, each.requests) for each in told] == [
        (TODAY + timedelta(days=1), 1),
        (TODAY, 2),
    ]
    assert await house.days(principal, days=1) == told[:1]


async def test_days_are_shown_within_their_bounds(house: House) -> None:
    _, principal = await house.tenant()

    for days in (0, 401):
        with pytest.raises(InvalidRequestError):
            await house.first.account.usage(principal, days=days)


class SometimesAway(SqliteStore):
    """A store whose disk is away at first."""

    is_away = True

    async def organization(self, organization_id: OrganizationId) -> OrganizationStore:
        if self.is_away:
            raise StorageError("the disk is away")
        return await super().organization(organization_id)


async def test_what_cannot_be_written_down_is_kept_for_the_next_time(tmp_path: Path) -> None:
    store = SometimesAway(tmp_path, clock=FakeClock(), ids=SequentialIds())
    await store.open()
    acme = await store.control.create_organization(OrganizationDraft(name="acme"), actor="test")
    meter = UsageMeter(store, FakeClock())
    meter.count(acme.id, requests=1)
    await meter.record()
    meter.count(acme.id, requests=1)
    store.is_away = False

    await meter.record()

    (told,) = await store.control.list_usage(acme.id, limit=10)
    assert told.requests == 2
    await store.close()


@promise("quotas")
async def test_a_changed_quota_holds_in_every_process_within_a_second(house: House) -> None:
    secret, principal = await house.tenant(Quota(messages_max=1))
    await say(house.first, principal, "one")
    await house.second.access.authenticate(secret)

    change = OrganizationChange(messages_max=2)
    await house.first.operator.change_organization(principal.organization_id, change)

    here = await house.first.access.authenticate(secret)
    await say(house.first, here, "two")
    house.clock.advance(timedelta(seconds=1))
    there = await house.second.access.authenticate(secret)
    assert (here.quota, there.quota) == (Quota(messages_max=2), Quota(messages_max=2))
    with pytest.raises(QuotaExceededError):
        await say(house.second, there, "three")


@promise("local")
async def test_a_process_without_a_key_holds_to_a_changed_quota_too(house: House) -> None:
    principal = await house.second.access.local_principal()
    await house.second.access.take_local_request(principal)

    change = OrganizationChange(bytes_max=5)
    await house.first.operator.change_organization(principal.organization_id, change)
    house.clock.advance(timedelta(seconds=1))

    renewed = await house.second.access.take_local_request(principal)
    assert renewed.quota == Quota(bytes_max=5)

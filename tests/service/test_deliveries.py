"""The log of what tools answered: off the path of requests, bounded, without secrets, and switched off by a setting."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import StoreBusyError
from engram.model.access import Principal
from engram.model.value import replace
from engram.service import Service
from engram.service.access.usage import Latencies
from engram.service.deliveries import Given
from engram.settings import Settings
from engram.storage.organization import OrganizationStore
from engram.wiring import open_service
from tests.fakes import SOME_DAY


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "store", embedder=NoEmbedder())


@pytest.fixture
async def service(settings: Settings) -> AsyncGenerator[Service]:
    async with open_service(settings) as opened:
        yield opened


async def note(service: Service, query: str, *, text: str = "an answer") -> Principal:
    me = await service.access.local_principal()
    given = Given(
        organization_id=me.organization_id,
        at=SOME_DAY,
        client="claude",
        key=me.actor,
        event="search",
        query=query,
        shown=("mem_1",),
        text=text,
    )
    service.deliveries.note(given)
    return me


async def stored(settings: Settings, me: Principal) -> list[str | None]:
    """Return the questions in the store, oldest first, without writing what waits."""
    async with open_service(settings) as other:
        found = await other.search.list_deliveries(me, limit=10)
    return [each.query for each in reversed(found)]


async def test_an_answer_is_written_with_the_usage_of_the_minute(
    service: Service, settings: Settings
) -> None:
    me = await note(service, "first")
    assert await stored(settings, me) == []

    await service.record_use()

    assert await stored(settings, me) == ["first"]
    (row,) = await service.search.list_deliveries(me, limit=10)
    assert (row.client, row.session, row.event, row.shown) == (
        "claude",
        "local",
        "search",
        ("mem_1",),
    )
    assert (row.bytes, row.tokens) == (9, 2)


async def test_whoever_lists_sees_what_still_waits(service: Service) -> None:
    me = await note(service, "first")

    assert [each.query for each in await service.search.list_deliveries(me, limit=10)] == ["first"]


async def test_secrets_and_long_questions_are_not_kept(service: Service) -> None:
    key = "sk-ant-api03-" + "a1B2c3D4" * 11
    me = await note(service, f"why is {key} refused")
    await note(service, "x" * 1_000)

    secret, long = reversed(await service.search.list_deliveries(me, limit=10))

    assert secret.query is not None
    assert key not in secret.query
    assert long.query == "x" * limits.DELIVERY_QUERY_CHARACTERS_MAX + "…"


async def test_too_many_answers_are_counted_and_dropped(
    service: Service,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(limits, "DELIVERIES_WAITING_MAX", 2)
    monkeypatch.setattr(limits, "DELIVERY_CHARACTERS_MAX", 100)
    me = await note(service, "long", text="x" * 101)
    for query in ("first", "second", "third"):
        await note(service, query)

    with caplog.at_level(logging.WARNING):
        await service.record_use()

    assert await stored(settings, me) == ["first", "second"]
    assert "2 answers are missing" in caplog.text


async def test_a_store_that_fails_fails_no_caller(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: OrganizationStore, *__: object) -> None:
        raise StoreBusyError("locked")

    monkeypatch.setattr(OrganizationStore, "record_deliveries", fail)
    await note(service, "first")

    with caplog.at_level(logging.WARNING):
        await service.record_use()

    assert "1 answers are missing in the log" in caplog.text


async def test_the_log_is_switched_off_by_its_setting(settings: Settings) -> None:
    async with open_service(replace(settings, hook_log="off")) as service:
        me = await note(service, "first")

        assert await service.search.list_deliveries(me, limit=10) == ()


async def test_times_are_of_the_latest_searches_of_one_organisation(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LATENCY_SAMPLES", 100)
    monkeypatch.setattr(limits, "LATENCY_ORGANIZATIONS_MAX", 1)
    me = (await service.access.local_principal()).organization_id
    latencies = Latencies()
    assert latencies.of(me) is None
    for place in range(200):
        latencies.note(me, place / 1_000)

    times = latencies.of(me)
    latencies.note(type(me)("org_other"), 1.0)

    assert times is not None
    assert (times.searches, times.p50_ms, times.p95_ms, times.p99_ms) == (100, 150, 195, 199)
    assert latencies.of(me) is None

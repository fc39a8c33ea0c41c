"""A remote embedder that fails: nobody waits for it, search goes on by words, and it is found again."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from engram.embedding.remote import RemoteAddress, RemoteEmbedder
from engram.embedding.retry import Backoff
from engram.embedding.tiers import Tiers
from engram.limits import BREAKER_OPEN_S_MAX
from tests.embedding.service import Behaviour, Service, failing, running_service, saying, vectors
from tests.fakes import FakeClock
from tests.meaning.house import House, explained, nap, opened_house

QUERY_S = 1.0
WITHOUT_EMBEDDER = ("words_only", "embedder_unavailable")
SOME_TIME = timedelta(seconds=BREAKER_OPEN_S_MAX)
"""After it every circuit is tried again."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def service() -> Generator[Service]:
    with running_service() as service:
        yield service


@asynccontextmanager
async def house_of(url: str, directory: Path, clock: FakeClock) -> AsyncGenerator[House]:
    """Open a house whose embedder is the service at `url`."""
    embedder = RemoteEmbedder(
        RemoteAddress(url, "some-model"), clock=clock, backoff=Backoff(sleep=nap), query_s=QUERY_S
    )
    async with opened_house(directory, Tiers.of(deep=embedder), clock=clock) as house:
        yield house


async def test_a_service_that_is_down_is_found_when_it_comes_up(
    tmp_path: Path, clock: FakeClock
) -> None:
    port = free_port()
    async with house_of(f"http://127.0.0.1:{port}", tmp_path, clock) as house:
        await expect_words_only(house)

        with running_service(port=port):
            clock.advance(SOME_TIME)
            await expect_recovery(house)


async def test_a_service_that_is_silent_is_used_when_it_speaks(
    tmp_path: Path, clock: FakeClock, service: Service
) -> None:
    service.awake.clear()
    async with house_of(service.url, tmp_path, clock) as house:
        await expect_words_only(house)

        service.awake.set()
        clock.advance(SOME_TIME)
        await expect_recovery(house)


FAILURES: dict[str, Behaviour] = {
    "500": failing(500),
    "401": failing(401),
    "429": failing(429, retry_after="3600"),
    "400 for all": failing(400),
    "no JSON": saying("<html>"),
    "no vectors": saying('{"data": []}'),
    "zero vectors": saying('{"data": [{"index": 0, "embedding": [0.0, 0.0, 0.0]}]}'),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_service_that_fails_from_the_start_is_used_when_it_works(
    tmp_path: Path, clock: FakeClock, service: Service, failure: str
) -> None:
    service.usual = FAILURES[failure]
    async with house_of(service.url, tmp_path, clock) as house:
        await expect_words_only(house)

        service.usual = vectors
        clock.advance(SOME_TIME)
        await expect_recovery(house)


@pytest.mark.parametrize("failure", [*FAILURES, "other dimensions"])
async def test_a_service_that_begins_to_fail_is_used_when_it_works_again(
    tmp_path: Path, clock: FakeClock, service: Service, failure: str
) -> None:
    behaviours = {**FAILURES, "other dimensions": partial(vectors, dimensions=4)}
    async with house_of(service.url, tmp_path, clock) as house:
        await house.append("Something before the failure")
        await house.index_all()

        service.usual = behaviours[failure]
        await expect_words_only(house)

        service.usual = vectors
        clock.advance(SOME_TIME)
        await expect_recovery(house)


async def expect_words_only(house: House) -> None:
    """Expect that messages are stored and found by words, and that everything says so."""
    await house.append("The ferry leaves at seven")
    answer = await house.search("ferry at seven")
    assert explained(answer).legs.keys() == {"message_words", "window_words"}
    assert answer.degraded == (*WITHOUT_EMBEDDER, "index_lag")
    assert house.service.operator.degraded == WITHOUT_EMBEDDER
    assert await house.degraded() == WITHOUT_EMBEDDER


async def expect_recovery(house: House) -> None:
    """Expect that by itself the service is used, also for what was stored before."""
    await house.index_all()
    answer = await house.search("the ferry")
    assert explained(answer).vector_tier == "deep"
    assert answer.degraded == ()
    assert house.service.operator.degraded == ()
    assert await house.degraded() == ()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]

"""Sign-ins to the page in several processes: what is cached of them, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from engram.embedding.choice import NoEmbedder
from engram.limits import PAGE_SESSION_S
from engram.model.access import OrganizationDraft
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock, SequentialIds

TOKEN = "token of the operator, long enough"
A_SECOND = timedelta(seconds=1)

Pair = tuple[Service, Service]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def pair(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Pair]:
    """Yield the services of two processes that share a store."""
    settings = Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=TOKEN)
    ids = SequentialIds()
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(open_service(settings, clock=clock, ids=ids)),
            await stack.enter_async_context(open_service(settings, clock=clock, ids=ids)),
        )


async def sign_in(service: Service) -> str:
    _, key = await service.operator.create_organization(OrganizationDraft(name="acme"))
    return await service.sessions.sign_in(key.secret, address=None)


async def test_a_session_ends_here_at_once_and_elsewhere_within_a_second(
    pair: Pair, clock: FakeClock
) -> None:
    here, elsewhere = pair
    secret = await sign_in(here)
    for service in pair:
        assert await service.sessions.find_visitor(secret) is not None

    await here.sessions.sign_out(secret)

    assert await here.sessions.find_visitor(secret) is None
    clock.advance(A_SECOND)
    assert await elsewhere.sessions.find_visitor(secret) is None


async def test_a_session_that_is_looked_at_all_the_time_expires(
    pair: Pair, clock: FakeClock
) -> None:
    service, _ = pair
    secret = await sign_in(service)
    clock.advance(timedelta(seconds=PAGE_SESSION_S) - timedelta(milliseconds=100))
    assert await service.sessions.find_visitor(secret) is not None

    clock.advance(timedelta(milliseconds=100))

    assert await service.sessions.find_visitor(secret) is None


async def test_an_operator_acts_for_the_organisation_just_chosen_in_every_process(
    pair: Pair,
) -> None:
    here, elsewhere = pair
    secret = await here.sessions.sign_in(TOKEN, address=None)
    organization, _ = await here.operator.create_organization(OrganizationDraft(name="acme"))
    assert (visitor := await elsewhere.sessions.find_visitor(secret))
    assert not visitor.principal

    await here.sessions.choose_organization(secret, organization.id)

    visitor = await elsewhere.sessions.find_visitor(secret)
    assert visitor is not None
    assert visitor.principal is not None
    assert visitor.principal.organization_id == organization.id

"""Requests take turns by organisation, and none while they wait for their clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import httpx
import pytest

from engram.http.asgi import Application
from engram.service import Service
from engram.service.access.admission import TurnBounds, Turns
from tests.promises import promise
from tests.rest.calls import new_conversation, refusal

pytestmark = promise("fair")

STATUS = "/api/v1/status"
HOUR_S = 3_600


@pytest.fixture
def service(app: Application) -> Service:
    """The service with the least turns there can be."""
    # The running service has no other door, and its turns are what is tested.
    serving = app._serving  # pyright: ignore[reportPrivateUsage]
    assert serving is not None
    service, _ = serving
    service.turns = Turns(
        TurnBounds(alone_max=1, shared_max=1, waiting_max=1, wait_s=HOUR_S, long_s=HOUR_S)
    )
    return service


async def held_by(api: httpx.AsyncClient, service: Service, stack: AsyncExitStack) -> None:
    """Hold the only turn of a client's organisation."""
    secret = api.headers["Authorization"].removeprefix("Bearer ")
    principal = await service.access.authenticate(secret)
    await stack.enter_async_context(service.turns.turn(principal.organization_id))


async def test_a_busy_organisation_waits_and_another_does_not(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient, service: Service
) -> None:
    async with AsyncExitStack() as stack:
        await held_by(api, service, stack)
        waiting = asyncio.create_task(api.get(STATUS))
        await anyio.wait_all_tasks_blocked()

        others = await stranger.get(STATUS)
        refused = await api.get(STATUS)

        assert others.status_code == 200
        assert refusal(refused) == (429, "too_many_at_once", None)
        assert refused.headers["retry-after"] == "1"
        assert not waiting.done()
    assert (await waiting).status_code == 200


async def test_what_needs_no_key_waits_for_no_turn(
    api: httpx.AsyncClient,
    anybody: httpx.AsyncClient,
    operator: httpx.AsyncClient,
    service: Service,
) -> None:
    async with AsyncExitStack() as stack:
        await held_by(api, service, stack)

        assert (await anybody.get("/healthz")).status_code == 200
        assert (await operator.get("/admin/organizations")).status_code == 200


async def test_a_request_takes_no_turn_while_its_body_is_on_its_way(
    api: httpx.AsyncClient, service: Service
) -> None:
    conversation_id = await new_conversation(api)
    path = f"/api/v1/conversations/{conversation_id}/messages"
    begun, rest = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"messages": [{"role": "user", '
        begun.set()
        await rest.wait()
        yield b'"content": "hello"}]}'

    kind = {"Content-Type": "application/json"}
    slow = asyncio.create_task(api.post(path, content=body(), headers=kind))
    with anyio.fail_after(30):
        await begun.wait()
        between = await api.get(STATUS)
        rest.set()
        appended = await slow

    assert between.status_code == 200
    assert appended.status_code == 200

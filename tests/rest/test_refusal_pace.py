"""An address that is refused over and over waits for its answers while others need the server."""

from __future__ import annotations

import asyncio

import anyio
from starlette.types import Scope

from engram import limits
from engram.http.problems import RefusalPace
from engram.model.ids import OrganizationId
from engram.service.access.admission import Turns
from tests.promises import promise

ANYBODY = OrganizationId("org_anybody")
AT_ONCE = limits.REFUSALS_PER_S_SHARED


def request(address: str) -> Scope:
    return {"type": "http", "client": (address, 1), "state": {}}


async def answered(pace: RefusalPace, address: str, *, refusals: int) -> int:
    """Return how many of the refusals are answered at once."""
    waiting = [asyncio.create_task(pace.wait(request(address))) for _ in range(refusals)]
    await anyio.wait_all_tasks_blocked()
    at_once = sum(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    return at_once


@promise("fair")
async def test_refusals_beyond_a_rate_wait_while_an_organisation_is_served() -> None:
    turns = Turns()
    await turns.enter(ANYBODY)
    pace = RefusalPace(turns)

    at_once = await answered(pace, "198.51.100.1", refusals=2 * AT_ONCE)

    assert AT_ONCE <= at_once < 2 * AT_ONCE
    assert await answered(pace, "198.51.100.2", refusals=1) == 1


async def test_refusals_of_a_server_that_serves_nobody_do_not_wait() -> None:
    assert await answered(RefusalPace(Turns()), "198.51.100.1", refusals=2 * AT_ONCE) == 2 * AT_ONCE

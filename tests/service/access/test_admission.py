"""How many requests of an organisation work at once, and what becomes of the others."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from engram.errors import TooManyAtOnceError
from engram.model.ids import OrganizationId
from engram.model.value import replace
from engram.service.access.admission import Turn, TurnBounds, Turns
from tests.promises import promise

FIRST, SECOND = OrganizationId("org_first"), OrganizationId("org_second")
HOUR_S = 3_600
STILL = TurnBounds(
    alone_max=4,
    shared_max=2,
    waiting_max=3,
    wait_s=HOUR_S,
    long_s=HOUR_S,
    neighbour_s=HOUR_S,
    tick_s=0.01,
)


def turns(**bounds: Any) -> Turns:
    """Return lines in which nothing happens by time alone, unless `bounds` say so."""
    return Turns(replace(STILL, **bounds))


async def enter(lines: Turns, organization_id: OrganizationId, count: int) -> list[Turn]:
    with anyio.fail_after(60):
        return [await lines.enter(organization_id) for _ in range(count)]


async def is_kept_waiting(entering: asyncio.Task[Turn]) -> bool:
    await anyio.wait_all_tasks_blocked()
    return not entering.done()


async def test_an_organisation_that_is_alone_may_do_more_at_once() -> None:
    lines = turns()
    held = await enter(lines, FIRST, 4)

    fifth = asyncio.create_task(lines.enter(FIRST))

    assert await is_kept_waiting(fifth)
    held[0].leave()
    (await fifth).leave()


@promise("fair")
async def test_beside_another_it_has_its_share_and_the_other_need_not_wait() -> None:
    lines = turns()
    held = await enter(lines, FIRST, 4)

    await enter(lines, SECOND, 2)
    next_one = asyncio.create_task(lines.enter(FIRST))
    for turn in held[:2]:
        turn.leave()

    assert await is_kept_waiting(next_one)
    held[2].leave()
    await next_one


@promise("fair")
async def test_those_who_wait_are_let_in_in_their_order() -> None:
    lines = turns(alone_max=1, shared_max=1)
    (held,) = await enter(lines, FIRST, 1)
    waiting = [asyncio.create_task(lines.enter(FIRST)) for _ in range(3)]
    await anyio.wait_all_tasks_blocked()

    for position in range(3):
        held.leave()
        held = await waiting[position]
        assert [task.done() for task in waiting] == [n <= position for n in range(3)]


@promise("fair")
async def test_a_line_that_is_full_refuses_at_once() -> None:
    lines = turns(alone_max=1, shared_max=1)
    await enter(lines, FIRST, 1)
    waiting = [asyncio.create_task(lines.enter(FIRST)) for _ in range(3)]
    await anyio.wait_all_tasks_blocked()

    with pytest.raises(TooManyAtOnceError):
        await lines.enter(FIRST)
    await enter(lines, SECOND, 1)

    for task in waiting:
        task.cancel()


async def test_nobody_waits_for_ever() -> None:
    lines = turns(alone_max=1, shared_max=1, wait_s=0)
    await enter(lines, FIRST, 1)

    with anyio.fail_after(30), pytest.raises(TooManyAtOnceError):
        await lines.enter(FIRST)


async def test_what_takes_long_leaves_room_for_shorter_requests() -> None:
    lines = turns(long_s=0)
    await enter(lines, SECOND, 1)

    await enter(lines, FIRST, 4)
    fifth = asyncio.create_task(lines.enter(FIRST))

    assert await is_kept_waiting(fifth)
    fifth.cancel()


async def test_a_neighbour_that_was_not_seen_for_a_while_counts_no_more() -> None:
    lines = turns(neighbour_s=0)
    (other,) = await enter(lines, SECOND, 1)
    await enter(lines, FIRST, 2)
    third = asyncio.create_task(lines.enter(FIRST))
    assert await is_kept_waiting(third)

    other.leave()

    with anyio.fail_after(30):
        await third


async def test_a_request_that_is_given_up_while_it_waits_takes_no_turn() -> None:
    lines = turns(alone_max=1, shared_max=1)
    (held,) = await enter(lines, FIRST, 1)
    given_up, patient = (asyncio.create_task(lines.enter(FIRST)) for _ in range(2))
    await anyio.wait_all_tasks_blocked()

    given_up.cancel()
    held.leave()

    with anyio.fail_after(60):
        await patient
    assert given_up.cancelled()


async def test_a_request_given_up_in_the_moment_of_its_turn_passes_it_on() -> None:
    lines = turns(alone_max=1, shared_max=1)
    (held,) = await enter(lines, FIRST, 1)
    given_up, patient = (asyncio.create_task(lines.enter(FIRST)) for _ in range(2))
    await anyio.wait_all_tasks_blocked()

    held.leave()
    given_up.cancel()

    with anyio.fail_after(60):
        await patient


async def test_a_turn_that_is_lent_and_not_needed_is_taken_back_before_anybody_notices() -> None:
    lines = turns(alone_max=1, shared_max=1)
    (held,) = await enter(lines, FIRST, 1)
    waiting = asyncio.create_task(lines.enter(FIRST))
    await anyio.wait_all_tasks_blocked()

    held.pause()
    await held.resume()

    assert await is_kept_waiting(waiting)
    held.leave()
    await waiting


async def test_whoever_lent_a_turn_has_the_next_one() -> None:
    lines = turns(alone_max=1, shared_max=1)
    (held,) = await enter(lines, FIRST, 1)
    second, third = (asyncio.create_task(lines.enter(FIRST)) for _ in range(2))
    await anyio.wait_all_tasks_blocked()

    held.pause()
    borrowed = await second
    resuming = asyncio.create_task(held.resume())
    await anyio.wait_all_tasks_blocked()
    borrowed.leave()
    await resuming

    assert await is_kept_waiting(third)
    held.leave()
    await third


@promise("fair")
async def test_an_organisation_that_sends_much_waits_only_beside_another() -> None:
    lines = turns(bytes_per_s=1)
    (turn,) = await enter(lines, FIRST, 1)
    with anyio.fail_after(60):
        await turn.pace(received=HOUR_S)

    await enter(lines, SECOND, 1)
    sending = asyncio.create_task(turn.pace(received=HOUR_S))

    await anyio.wait_all_tasks_blocked()
    assert not sending.done()
    sending.cancel()


async def test_leaving_twice_lets_one_in() -> None:
    lines = turns(alone_max=1, shared_max=1)
    (held,) = await enter(lines, FIRST, 1)
    held.leave()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(lines.turn(FIRST))
        held.leave()
        second = asyncio.create_task(lines.enter(FIRST))

        assert await is_kept_waiting(second)
    await second

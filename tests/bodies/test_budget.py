"""Memory for large requests: reserved, shared and given back."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from engram.bodies.receiving import BodyBudget
from engram.errors import ServerBusyError
from tests.promises import promise

SOON_S = 0.05


async def test_what_was_reserved_is_given_back_when_the_block_ends() -> None:
    budget = BodyBudget(100)

    with budget.reservation("a") as reservation:
        await reservation.take(40)
        reservation.shrink(30)
        assert budget.taken == 30

    assert budget.taken == 0


@promise("fair")
async def test_an_organisation_cannot_take_what_others_may_need() -> None:
    budget = BodyBudget(100, wait_s=SOON_S)
    with budget.reservation("a") as first, budget.reservation("a") as second:
        await first.take(30)

        with pytest.raises(ServerBusyError):
            await second.take(30)
        with budget.reservation("b") as other:
            await other.take(50)
            assert budget.taken == 80


async def test_one_request_larger_than_everything_is_served_alone() -> None:
    budget = BodyBudget(100, wait_s=SOON_S)
    with budget.reservation("a") as large, budget.reservation("b") as small:
        await large.take(300)

        with pytest.raises(ServerBusyError):
            await small.take(1)


async def test_a_request_that_waits_is_served_when_another_ends() -> None:
    budget = BodyBudget(100)
    served = anyio.Event()

    async def wait() -> None:
        with budget.reservation("b") as second:
            await second.take(60)
            served.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            with budget.reservation("a") as first:
                await first.take(60)
                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                assert not served.is_set()
            await served.wait()

    assert budget.taken == 0


@promise("fair")
async def test_whose_organisation_has_less_at_work_comes_first() -> None:
    budget, order = BodyBudget(100), list[str]()

    async def ask(owner: str, cost: int) -> None:
        with budget.reservation(owner) as reservation:
            await reservation.take(cost)
            order.append(owner)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        with budget.reservation("a") as few, budget.reservation("b") as many:
            await few.take(10)
            await many.take(90)
            tasks.start_soon(ask, "a", 40)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask, "c", 50)
            await anyio.wait_all_tasks_blocked()
            many.shrink(10)
            await anyio.wait_all_tasks_blocked()

    assert order == ["c", "a"]


async def test_a_request_that_is_cancelled_while_it_waits_takes_nothing() -> None:
    budget = BodyBudget(100)
    with budget.reservation("a") as first:
        await first.take(100)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(budget.reservation("b").take, 50)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    assert budget.taken == 0


async def test_requests_that_are_cancelled_together_take_nothing() -> None:
    budget = BodyBudget(100)
    with budget.reservation("a") as held:
        await held.take(60)
        async with anyio.create_task_group() as requests:
            # The second would fit, and waits only because the first came before it.
            requests.start_soon(budget.reservation("b").take, 50)
            await anyio.wait_all_tasks_blocked()
            requests.start_soon(budget.reservation("c").take, 10)
            await anyio.wait_all_tasks_blocked()
            requests.cancel_scope.cancel()

        assert budget.taken == 60

"""Searches and appends of an organisation alternate in groups, and nobody waits for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.limits import APPENDS_BESIDE_ONE, APPENDS_TOGETHER, SEARCHES_TOGETHER
from engram.model.ids import OrganizationId
from engram.service.access.alternation import Alternation, Kind

OWN, OTHER = OrganizationId("org_own"), OrganizationId("org_other")
FOREVER_S = 60.0


class Clients:
    """Clients that hold their turns until they are told to leave."""

    def __init__(self, alternation: Alternation) -> None:
        self.alternation = alternation
        self.tasks = list[asyncio.Task[None]]()
        self.leaves = list[asyncio.Event]()
        self.entered = list[int]()
        """The clients that were let in, in their order."""

    async def come(self, kind: Kind, *, organization_id: OrganizationId = OWN) -> int:
        """Have one more client ask for its turn; return its number."""
        number = len(self.tasks)
        self.leaves.append(asyncio.Event())
        self.tasks.append(asyncio.create_task(self._stay(number, kind, organization_id)))
        await settle()
        return number

    async def leave(self, *numbers: int) -> None:
        for number in numbers:
            self.leaves[number].set()
        await settle()

    async def give_up(self, number: int) -> None:
        """Cancel a client."""
        self.tasks[number].cancel()
        await settle()

    async def end(self) -> None:
        """Wait until all have left."""
        for leave in self.leaves:
            leave.set()
        with anyio.fail_after(FOREVER_S):
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _stay(self, number: int, kind: Kind, organization_id: OrganizationId) -> None:
        async with self.alternation.turn(organization_id, kind):
            self.entered.append(number)
            await self.leaves[number].wait()


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


@asynccontextmanager
async def clients(*, group_s: float = FOREVER_S) -> AsyncGenerator[Clients]:
    present = Clients(Alternation(group_s=group_s))
    try:
        yield present
    finally:
        await present.end()


@pytest.mark.parametrize("kind", ["search", "append"])
async def test_one_kind_alone_never_waits(kind: Kind) -> None:
    async with clients() as present:
        numbers = [await present.come(kind) for _ in range(20)]

        assert present.entered == numbers


async def test_an_append_waits_for_the_searches_at_work_and_not_for_later_ones() -> None:
    async with clients() as present:
        searches = [await present.come("search") for _ in range(SEARCHES_TOGETHER)]
        append = await present.come("append")
        late = await present.come("search")
        assert present.entered == searches

        await present.leave(*searches)
        assert present.entered == [*searches, append]

        await present.leave(append)
        assert present.entered == [*searches, append, late]


@pytest.mark.parametrize(("searches", "together"), [(1, APPENDS_BESIDE_ONE), (2, APPENDS_TOGETHER)])
async def test_searches_wait_for_one_group_of_appends(searches: int, together: int) -> None:
    async with clients() as present:
        first = await present.come("append")
        waiting = [await present.come("search") for _ in range(searches)]
        others = [await present.come("append") for _ in range(2 * together)]

        joined = others[: together - 1]
        assert present.entered == [first, *joined]
        await present.leave(first, *joined)

        assert present.entered == [first, *joined, waiting[0]]


async def test_searches_that_wait_do_not_all_begin_before_writers_have_come_back() -> None:
    async with clients() as present:
        append = await present.come("append")
        searches = [await present.come("search") for _ in range(4 * SEARCHES_TOGETHER)]

        await present.leave(append)
        began = searches[:SEARCHES_TOGETHER]
        assert present.entered == [append, *began]

        again = await present.come("append")
        await present.leave(*began)
        assert present.entered == [append, *began, again]


async def test_searches_go_on_if_no_writer_comes_back() -> None:
    async with clients() as present:
        append = await present.come("append")
        searches = [await present.come("search") for _ in range(3 * SEARCHES_TOGETHER)]

        for number in (append, *searches):
            await present.leave(number)

        assert present.entered == [append, *searches]


async def test_organisations_do_not_wait_for_each_other() -> None:
    async with clients() as present:
        search = await present.come("search")
        append = await present.come("append", organization_id=OTHER)

        assert present.entered == [search, append]


async def test_nobody_waits_longer_than_the_bound_for_one_that_does_not_end() -> None:
    async with clients(group_s=0.0) as present:
        numbers = [await present.come(kind) for kind in ("search", "append", "search", "append")]

        assert present.entered == numbers


async def test_one_that_gives_up_while_it_waits_leaves_no_gap() -> None:
    async with clients() as present:
        search = await present.come("search")
        impatient = await present.come("append")
        patient = await present.come("append")

        await present.give_up(impatient)
        await present.leave(search)

        assert present.entered == [search, patient]


async def test_one_that_gives_up_as_it_is_let_in_makes_room_for_the_next() -> None:
    async with clients() as present:
        search = await present.come("search")
        append = await present.come("append")
        late = await present.come("search")

        present.leaves[search].set()
        present.tasks[append].cancel()
        await settle()

        assert present.entered == [search, late]


@given(
    acts=st.lists(
        st.tuples(st.sampled_from(["search", "append", "leave", "give up"]), st.integers(0, 9)),
        max_size=60,
    )
)
def test_everybody_is_let_in_whoever_comes_leaves_or_gives_up(
    acts: list[tuple[str, int]],
) -> None:
    async def act() -> None:
        async with clients() as present:
            given_up = set[int]()
            came = 0
            for name, pick in acts:
                if name in ("search", "append"):
                    await present.come("search" if name == "search" else "append")
                    came += 1
                elif came and name == "leave":
                    await present.leave(pick % came)
                elif came and (number := pick % came) not in present.entered:
                    given_up.add(number)
                    await present.give_up(number)
            await present.end()

            assert sorted(present.entered) == sorted(set(range(came)) - given_up)
            assert present.alternation.is_idle

    asyncio.run(act())

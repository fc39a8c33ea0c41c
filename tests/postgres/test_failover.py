"""A primary that dies under load takes no acknowledged message with it, and service resumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from statistics import median
from time import monotonic

import pytest

from tests.postgres.servers import Server, Servers, running_servers, url_of
from tests.postgres.stores import new_organization, opened
from tests.postgres.writers import Crowd, Writer
from tests.promises import promise
from tests.storage.drafts import findings

ROUNDS = 20
WRITERS_PER_STORE = 4


@pytest.fixture
def servers() -> Iterator[Servers]:
    with running_servers() as servers:
        yield servers


@promise("durable", kills=ROUNDS)
async def test_no_acknowledged_message_is_lost_or_doubled_when_primaries_are_killed_under_load(
    servers: Servers, record_property: Callable[[str, object], None]
) -> None:
    primary = servers.primary()
    standby = servers.standby(primary)
    # The tables are made where writes are taken, though another is named first.
    url = url_of((standby, primary))
    async with opened(url) as here, opened(url) as there:
        organization_id = (await new_organization(here)).organization_id
        writers = [
            Writer(store, organization_id, name=f"writer {number} of {place}")
            for place, store in (("here", here), ("there", there))
            for number in range(WRITERS_PER_STORE)
        ]
        for writer in writers:
            await writer.prepare()

        recoveries_s = await fail_over_again_and_again(primary, standby, Crowd(writers))

        for writer in writers:
            assert await writer.read() == writer.acknowledged
        assert await findings(await here.organization(organization_id)) == []
    record_property("told", _tell(recoveries_s, writers))


async def fail_over_again_and_again(primary: Server, standby: Server, crowd: Crowd) -> list[float]:
    """Kill primaries while a crowd writes; return for how long each time nobody could."""
    recoveries_s = list[float]()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(crowd.run())
        for _ in range(ROUNDS):
            crowd.let_write()
            await crowd.until_everyone_wrote(since=monotonic())
            recoveries_s.append(await fail_over(primary, standby, crowd))
            await crowd.until_everyone_wrote(since=monotonic())
            crowd.hold()
            await asyncio.to_thread(primary.return_as_standby_of, standby)
            primary, standby = standby, primary
        crowd.end()
    return recoveries_s


async def fail_over(primary: Server, standby: Server, crowd: Crowd) -> float:
    """Kill a primary and promote its standby; return the seconds until a write is acknowledged."""
    began = monotonic()
    await asyncio.to_thread(primary.kill)
    killed = monotonic()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(standby.promote))
        await crowd.until_anyone_wrote(since=killed)
        return monotonic() - began


def _tell(recoveries_s: list[float], writers: list[Writer]) -> str:
    acknowledged = sum(len(writer.acknowledged) for writer in writers)
    retries = sum(writer.retries for writer in writers)
    least, middle, most = min(recoveries_s), median(recoveries_s), max(recoveries_s)
    return (
        f"{len(recoveries_s)} primaries killed under {len(writers)} writers: "
        f"{acknowledged:,} messages acknowledged, none lost or doubled, {retries:,} retries; "
        f"service back after {least:.2f} / {middle:.2f} / {most:.2f} s (least, median, most)"
    )

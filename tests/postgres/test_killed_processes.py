"""kill -9 of processes that write to a database: what they acknowledged is there."""

from __future__ import annotations

import anyio

from tests.postgres.stores import new_organization, opened
from tests.promises import promise
from tests.storage.drafts import findings
from tests.storage.processes import PROJECT, all_messages, command

KILLS = 16


@promise("durable", kills=KILLS)
async def test_what_a_killed_process_acknowledged_is_there(database_url: str) -> None:
    async with opened(database_url) as store:
        organization = await new_organization(store)
        appending = command("killed_appends", database_url, organization.organization_id, KILLS)

        answer = await anyio.run_process(appending, cwd=PROJECT)

        acknowledged = answer.stdout.decode().splitlines()
        messages = await all_messages(organization)
        stored = [message.content for message in messages]
        assert len(acknowledged) >= KILLS
        assert set(acknowledged) <= set(stored)
        assert len(set(stored)) == len(stored)
        assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
        assert await findings(organization) == []

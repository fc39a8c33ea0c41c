"""Through a pooler in transaction mode a store does everything that it does without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.errors import StoreUnavailableError
from engram.storage.postgres.logins import set_up_login
from tests.postgres.databases import LOGIN
from tests.postgres.furnished import use_everything
from tests.postgres.pooler import Pooler, running_pooler
from tests.postgres.servers import Server, running_servers
from tests.postgres.stores import new_organization, opened
from tests.storage.drafts import append, begin, count_holders, findings, read_texts


@pytest.fixture
def pooler(postgres_server: Server, database_url: str, tmp_path: Path) -> Iterator[Pooler]:
    """Yield a pooler in front of the server, which has the database of the test."""
    with running_pooler(postgres_server, tmp_path) as pooler:
        yield pooler


async def test_everything_works_through_a_pooler_in_transaction_mode(
    pooler: Pooler, database_url: str
) -> None:
    async with opened(pooler.url("engram_test"), direct_url=database_url) as store:
        await use_everything(store)


async def test_organisations_that_share_sessions_of_a_pooler_stay_apart(
    pooler: Pooler, database_url: str
) -> None:
    url = pooler.url("engram_test")
    async with (
        opened(url, direct_url=database_url) as here,
        opened(url, direct_url=database_url) as there,
    ):
        organizations = [await new_organization(each) for each in (here, there) * 3]
        conversations = [await begin(each) for each in organizations]

        async def write_and_find(place: int) -> None:
            for number in range(10):
                text = f"word{place} number{number}"
                await append(organizations[place], text, to=conversations[place])
                assert await count_holders(organizations[place], f"word{place}") == number + 1
                assert await count_holders(organizations[place], f"word{place - 1}") == 0

        await asyncio.gather(*map(write_and_find, range(len(organizations))))

        for place, (organization, conversation) in enumerate(
            zip(organizations, conversations, strict=True)
        ):
            texts = [f"word{place} number{number}" for number in range(10)]
            assert await read_texts(organization, conversation) == texts
            assert await findings(organization) == []


async def test_a_server_that_is_away_behind_a_pooler_is_unavailable(tmp_path: Path) -> None:
    with running_servers() as servers:
        server = servers.primary()
        server.execute("CREATE DATABASE engram_test")
        direct_url = server.socket_url("engram_test")
        set_up_login(direct_url, login=LOGIN, with_password=False)
        with running_pooler(server, tmp_path, wait_s=1) as pooler:
            async with opened(pooler.url("engram_test"), direct_url=direct_url) as store:
                organization = await new_organization(store)
                server.kill()

                # The pooler says that it lost the server, or that it waited for it in vain.
                for _ in range(2):
                    with pytest.raises(StoreUnavailableError):
                        await begin(organization)

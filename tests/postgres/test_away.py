"""A database that is away fails requests with words to try again, and serves as soon as it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from mcp import Client

from engram.embedding.choice import NoEmbedder
from engram.errors import ConfigurationError, StoreUnavailableError
from engram.http.asgi import create_app
from engram.mcp.server import Caller, build_server
from engram.model.vectors import QueryVector
from engram.settings import Settings
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.connection import complete, complete_reading
from engram.wiring import open_service
from tests.mcp.connecting import refusal as tool_refusal
from tests.postgres.servers import Server, Servers, running_servers, url_of
from tests.postgres.stores import new_organization, opened
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, append, connect, new_conversation, new_key, refusal
from tests.storage.drafts import append as append_text
from tests.storage.drafts import begin, read_texts
from tests.storage.embedded import QUICK, append_meant, vector_of
from tests.storage.finding import find_candidates


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_servers() as servers:
        yield servers.primary()


@pytest.fixture
def servers() -> Iterator[Servers]:
    with running_servers() as servers:
        yield servers


@pytest.fixture
def settings(server: Server, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=url_of([server]),
        embedder=NoEmbedder(),
        admin_token=ADMIN_TOKEN,
        rate_limit=0,
    )


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an organisation of its own."""
    app = create_app(settings)
    async with app.lifespan():
        async with connect(app, ADMIN_TOKEN) as operator:
            key = await new_key(operator)
        async with connect(app, key) as client:
            yield client


@promise("failures")
async def test_requests_are_told_to_come_again_and_are_served_when_the_database_is_back(
    server: Server, api: httpx.AsyncClient
) -> None:
    conversation_id = await new_conversation(api)
    await append(api, conversation_id, "before")

    await asyncio.to_thread(server.kill)
    refused = [
        await append(api, conversation_id, "meanwhile"),
        await api.get(f"/api/v1/conversations/{conversation_id}"),
    ]
    readiness = await api.get("/readyz")
    await asyncio.to_thread(server.start)
    served = await append(api, conversation_id, "after")

    assert [refusal(response)[:2] for response in refused] == [(503, "store_unavailable")] * 2
    assert all(int(response.headers["retry-after"]) >= 1 for response in (*refused, readiness))
    assert readiness.status_code == 503
    assert served.status_code == 200
    messages = (await api.get(f"/api/v1/conversations/{conversation_id}")).json()["messages"]
    assert [message["content"] for message in messages] == ["before", "after"]


async def test_tools_say_that_the_database_is_away(server: Server, settings: Settings) -> None:
    async with open_service(settings) as service:
        principal = await service.access.local_principal()
        caller = Caller(principal, settings.shown_toolsets)
        async with Client(build_server(service, lambda _request: caller)) as client:
            await asyncio.to_thread(server.kill)
            facts = await tool_refusal(client, "search", query="anything")
            await asyncio.to_thread(server.start)

            assert facts["code"] == "store_unavailable"
            result = await client.call_tool("search", {"query": "anything"})
            assert not result.is_error


async def test_connections_that_were_lost_while_idle_are_noticed_by_nobody(server: Server) -> None:
    async with opened(url_of([server])) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization, "one")
        await asyncio.gather(*(read_texts(organization, conversation_id) for _ in range(8)))

        server.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE application_name = 'engram'"
        )

        await append_text(organization, "two", to=conversation_id)
        assert await read_texts(organization, conversation_id) == ["one", "two"]


async def test_store_is_not_opened_while_its_database_is_away(server: Server) -> None:
    await asyncio.to_thread(server.kill)
    try:
        with pytest.raises(StoreUnavailableError):
            async with opened(url_of([server])):
                pass
    finally:
        await asyncio.to_thread(server.start)


async def test_nothing_is_remembered_of_rows_that_a_new_primary_lacks(servers: Servers) -> None:
    primary = servers.primary()
    standby = servers.standby(primary)
    primary.wait_for_nobody()
    async with opened(url_of([primary, standby])) as store:
        organization_id = (await new_organization(store)).organization_id
        standby.wait_until_level(primary)
        standby.stop()
        organization = await store.organization(organization_id)
        await append_meant(organization, "lost with its server")
        assert await likeness(organization, "lost with its server") > 0.99

        await asyncio.to_thread(primary.kill)
        await asyncio.to_thread(standby.start)
        await asyncio.to_thread(standby.promote)
        organization = await store.organization(organization_id)
        await append_meant(organization, "tanuki are tricky")

        organization = await store.organization(organization_id)
        assert await likeness(organization, "tanuki are tricky") > 0.99


async def likeness(organization: OrganizationStore, text: str) -> float:
    """Return how near the nearest message is to a text."""
    query = QueryVector(tier="instant", identity=QUICK, vector=vector_of(text, QUICK))
    found = await find_candidates(organization, [], vectors=[query])
    return float(found.cosine.max())


def test_one_of_several_hosts_is_used_that_takes_writes() -> None:
    completed = complete("postgresql://a:1,b:2/engram")

    assert "target_session_attrs=read-write" in completed
    assert "target_session_attrs" not in complete("postgresql://a/engram")
    assert "target_session_attrs" not in complete_reading("postgresql://a,b/engram")


def test_what_an_address_says_is_left_as_it_is() -> None:
    completed = complete(
        "postgresql://a,b/engram?target_session_attrs=any&connect_timeout=7&application_name=mine"
    )

    assert "target_session_attrs=any" in completed
    assert "connect_timeout=7" in completed
    assert "application_name=mine" in completed


def test_address_that_is_none_is_refused_without_repeating_it() -> None:
    with pytest.raises(ConfigurationError) as refused:
        complete("postgresql://user:secret@host:notaport%zz/engram")

    assert refused.value.setting == "ENGRAM_DATABASE_URL"
    assert "secret" not in str(refused.value)

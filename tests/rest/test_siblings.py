"""Server processes that share a port: sessions and figures are found whichever of them is asked."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest

from engram.bodies.siblings import Siblings, siblings_directory
from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.http.metrics import added_up
from engram.model.access import OrganizationDraft
from engram.settings import Settings
from engram.wiring import open_service
from tests.mcp.connecting import RunningServer, bearer, call, legacy_sse_client
from tests.mcp.test_sse import next_data, open_session, post
from tests.rest.test_health import figures
from tests.rest.test_server import serve_command
from tests.serving import serving

POSTED = 5
_PROCESS = "engram_process_info"
"""A figure that every process has of its own."""


@asynccontextmanager
async def two_servers(home: Path) -> AsyncGenerator[tuple[RunningServer, RunningServer]]:
    """Yield two servers of one store that know of each other, as workers do."""
    settings = Settings(home=home, embedder=NoEmbedder(), rate_limit=0)
    with siblings_directory() as directory:
        apps = [create_app(settings, siblings=Siblings(directory, name=name)) for name in "ab"]
        async with (
            serving(apps[0]) as first,
            serving(apps[1]) as second,
            open_service(settings) as service,
        ):
            _, key = await service.operator.create_organization(OrganizationDraft(name="first"))
            yield (
                RunningServer(first, service, key.secret, home),
                RunningServer(second, service, key.secret, home),
            )


async def test_a_session_answers_what_another_process_was_given(tmp_path: Path) -> None:
    async with (
        two_servers(tmp_path) as (first, second),
        open_session(first, first.key) as (endpoint, lines),
    ):
        status = await post(second, endpoint, second.key)

        assert endpoint.startswith("/messages/a/?session_id=")
        assert status == 202
        assert '"id":1' in await next_data(lines)


async def test_a_message_that_is_handed_on_needs_the_key_of_its_session(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (first, second):
        stranger = await first.new_organization("stranger")
        async with open_session(first, first.key) as (endpoint, _):
            statuses = [await post(second, endpoint, key) for key in (stranger, None)]

    assert statuses == [404, 401]


async def test_the_session_of_a_process_that_has_ended_is_unknown(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (first, _):
        assert await post(first, f"/messages/gone/?session_id={'0' * 32}", first.key) == 404


async def test_a_scrape_adds_up_what_all_processes_counted(tmp_path: Path) -> None:
    health = ("engram_requests_total", "method=GET", "route=/healthz", "status=200")
    async with two_servers(tmp_path) as servers:
        for server in servers:
            async with httpx.AsyncClient(base_url=server.url) as client:
                for _ in range(POSTED):
                    (await client.get("/healthz")).raise_for_status()
        scraped: list[float] = []
        for server in servers:
            async with httpx.AsyncClient(base_url=server.url) as client:
                scraped.append((await figures(client))[health])

    assert scraped == [2 * POSTED, 2 * POSTED]


async def test_what_was_handed_on_is_counted_once(tmp_path: Path) -> None:
    async with (
        two_servers(tmp_path) as (first, second),
        open_session(first, first.key) as (endpoint, _),
    ):
        await post(second, endpoint, second.key)
        async with httpx.AsyncClient(base_url=first.url, headers=bearer(None)) as client:
            counted = await figures(client)

    posts = {key: value for key, value in counted.items() if "method=POST" in key}
    assert sum(value for key, value in posts.items() if key[0] == "engram_requests_total") == 1


def test_times_are_those_of_the_first_start_and_the_last_event() -> None:
    shown = [
        b"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %d\n"
        b"# TYPE engram_scrub_finished_timestamp_seconds gauge\n"
        b"engram_scrub_finished_timestamp_seconds %d\n" % (time, time)
        for time in (20, 10, 30)
    ]

    lines = added_up(shown).decode().splitlines()

    assert "process_start_time_seconds 10.0" in lines
    assert "engram_scrub_finished_timestamp_seconds 30.0" in lines


async def until_processes_answer(scraper: httpx.AsyncClient, wanted: int) -> None:
    """Scrape until so many processes are in the answer: a server answers before all its workers have started."""
    with anyio.fail_after(60):
        while len([name for name, *_ in await figures(scraper) if name == _PROCESS]) != wanted:
            await anyio.lowlevel.checkpoint()


@pytest.mark.skipif(os.name == "nt", reason="there are no Unix sockets")
async def test_clients_of_several_workers_reach_their_sessions(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--workers", "2") as (process, started):
        key = (await anyio.Path(started["api_key_file"]).read_text()).strip()
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(legacy_sse_client(started["url"], key))
                for _ in range(POSTED)
            ]
            answers = [await call(client, "list_conversations") for client in clients]
        async with httpx.AsyncClient(base_url=started["url"]) as scraper:
            await until_processes_answer(scraper, 2)
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            await process.communicate()

    assert process.returncode == 0
    assert len(answers) == POSTED

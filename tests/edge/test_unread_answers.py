"""Long answers that nobody reads take bounded memory, and who reads is not cut off for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.http.connections import EdgeBounds, Unread, UnreadAnswers
from engram.settings import Settings
from tests.edge.test_connections import Client
from tests.edge.wire import RawClient, get, raw_client
from tests.rest.calls import ADMIN_TOKEN, append, new_conversation, new_key
from tests.serving import serving

ANSWER_BYTES = 9_000_000
"""More than the buffers of a connection hold in the kernel."""

BOUNDS = EdgeBounds(answers_bytes_max=4 * ANSWER_BYTES + 100_000, answer_grace_s=0.2, sweep_s=0.1)


@asynccontextmanager
async def long_answer(tmp_path: Path) -> AsyncGenerator[tuple[str, str, str]]:
    """Yield the address of a server, a key, and the path of a long answer."""
    app = create_app(
        Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN, rate_limit=0)
    )
    async with app.lifespan(), serving(app, BOUNDS) as url, httpx.AsyncClient() as client:
        client.base_url = httpx.URL(url)
        client.headers["Authorization"] = f"Bearer {ADMIN_TOKEN}"
        key = await new_key(client)
        client.headers["Authorization"] = f"Bearer {key}"
        conversation_id = await new_conversation(client)
        await append(client, conversation_id, "x" * ANSWER_BYTES)
        yield url, key, f"/api/v1/conversations/{conversation_id}"


async def begin_reading(client: RawClient, path: str, key: str) -> None:
    """Ask for an answer and read its head alone."""
    await client.send(get(path, f"Authorization: Bearer {key}", "Connection: close"))
    assert b" 200 " in await client.head()


async def test_answers_that_nobody_reads_are_cut_off_beyond_the_bound(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with long_answer(tmp_path) as (url, key, path), AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(raw_client(url)) for _ in range(8)]
        for client in idle:
            await begin_reading(client, path, key)
        with anyio.fail_after(30):
            while caplog.text.count("its answer is not read") < 4:  # noqa: ASYNC110 - a log has no event
                await anyio.sleep(0.02)

        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as reader:
            read = await reader.get(f"{url}{path}")
        with anyio.fail_after(30):
            received = await asyncio.gather(*(client.answer() for client in idle))

    assert len(read.content) > ANSWER_BYTES
    whole = [len(answer) > ANSWER_BYTES for answer in received]
    # One more gave way if the answer that was read came on top of the bound.
    assert whole.count(True) in {3, 4}


def answers_of(**sizes: int) -> tuple[UnreadAnswers, dict[str, tuple[Client, Unread]]]:
    """Return answers that began at once, by the name of their organisation and a number."""
    answers = UnreadAnswers(EdgeBounds(answers_bytes_max=100, answer_grace_s=2))
    held = dict[str, tuple[Client, Unread]]()
    for name, size in sizes.items():
        held[name] = Client(), Unread(size, name.rstrip("0123456789"), 0.0)
        answers.add(*held[name])
    return answers, held


def evicted(held: dict[str, tuple[Client, Unread]]) -> list[str]:
    return [name for name, (client, _) in held.items() if client.is_evicted]


def test_nobody_is_cut_off_below_the_bound_or_at_once() -> None:
    below, first = answers_of(a=60, b=40)
    above, second = answers_of(a=60, b=41)

    below.relieve(1_000)
    above.relieve(1.9)

    assert (evicted(first), evicted(second)) == ([], [])


def test_the_slowest_reader_of_the_organisation_with_the_most_is_cut_off() -> None:
    answers, held = answers_of(a1=30, a2=30, b=50)
    held["a1"][1].sent = 10
    held["a2"][1].sent = 5

    answers.relieve(2)

    assert evicted(held) == ["a2"]
    assert answers.bytes == 80


@pytest.mark.parametrize("size", [100, 1_000])
def test_an_answer_that_is_read_to_its_end_counts_no_more(size: int) -> None:
    answers, held = answers_of(a=size)

    answers.remove(held["a"][0])
    answers.relieve(1_000)

    assert (answers.bytes, evicted(held)) == (0, [])

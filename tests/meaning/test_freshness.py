"""A message is found by its meaning, from any process, as soon as it is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

import httpx

from tests.meaning.servers import append, found, search, serve
from tests.promises import promise

pytestmark = promise("findable")

ROUNDS = 100
WRITERS = 4
WRITTEN_BEFORE = 200
"""By each writer, so that the queue is full from the beginning."""
WRITTEN_TOGETHER = 5


async def test_new_messages_have_a_vector_score_in_another_process_while_the_queue_is_full(
    tmp_path: Path,
) -> None:
    with serve(tmp_path, embedder="local") as first, serve(tmp_path, embedder="local") as second:
        async with first.client() as here, second.client(first.key) as there, Writers(here) as busy:
            tiers: list[str] = []
            for number in range(ROUNDS):
                busy.go_on()
                tiers.append(await tier_when_found(here, there, number))

    # The queue gives the newest message first, so a deep vector may have come in between.
    assert set(tiers) <= {"instant", "deep"}
    assert tiers.count("instant") > ROUNDS / 2


async def tier_when_found(here: httpx.AsyncClient, there: httpx.AsyncClient, number: int) -> str:
    """Store a message, ask another process for it at once, and return whose vector found it."""
    text = f"Parcel {number:03} was handed to the neighbour behind door {number * 7}"
    (stored,) = await append(here, text)

    answer = await search(there, f"Who took in parcel {number:03}?")

    assert answer["degraded"] == []
    assert answer["pending"] > 0
    (explained,) = [
        message["score_breakdown"] for message in found(answer) if message["id"] == stored
    ]
    assert explained["raw"]["message_vector"] > 0
    return explained["vector_tier"]


class Writers:
    """Clients that keep the queue of deep vectors full; each appends whenever it is told to."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._turns = asyncio.Semaphore(0)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        names = [f"Writer {number}" for number in range(WRITERS)]
        for name in names:
            await self._append(name, WRITTEN_BEFORE)
        self._tasks = [asyncio.create_task(self._write(name)) for name in names]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends

    def go_on(self) -> None:
        """Let every writer append once more."""
        for _ in range(WRITERS):
            self._turns.release()

    async def _write(self, name: str) -> None:
        while True:
            await self._turns.acquire()
            await self._append(name, WRITTEN_TOGETHER)

    async def _append(self, name: str, count: int) -> None:
        await append(self._client, *[f"{name} notes line {line}" for line in range(count)])

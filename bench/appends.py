"""Durable appends over HTTP beside the same rows written through the store alone."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure
from bench.texts import sized
from bench.wire import connected, prepare_post
from engram.clock import RandomIds, SystemClock
from engram.model.access import OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tools.server import Server, running_server

CLIENTS = 16
MESSAGES_PER_CALL = 6
MESSAGE_CHARACTERS = 300
BOUND = 0.4
ACTOR = "bench"


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figure of appends, from rounds that alternate between both."""
    calls, rounds = (25, 1) if quick else (100, 5)
    with running_server(LOG="error") as server:
        pairs = [(over_http(server, calls=calls), through_store(calls)) for _ in range(rounds)]
    return [
        Figure(
            name=f"durable appends over HTTP, {CLIENTS} clients",
            value=statistics.median(http for http, _ in pairs),
            unit="messages/s",
            floor=statistics.median(store for _, store in pairs),
            floor_name="the same through the store's group commit",
            direction="at least",
            bound=BOUND,
        )
    ]


def over_http(server: Server, *, calls: int) -> float:
    """Return the messages a second of clients that wait for each answer."""
    token = server.create_organization("bench")
    conversations = [
        server.post("/api/v1/conversations", {}, token=token)["conversation_id"]
        for _ in range(CLIENTS)
    ]

    async def run() -> float:
        requests = [_requests(path, token, calls) for path in map(_path, conversations)]
        started = time.perf_counter()
        await asyncio.gather(*(_send(server.port, prepared) for prepared in requests))
        return time.perf_counter() - started

    return CLIENTS * calls * MESSAGES_PER_CALL / asyncio.run(run())


def through_store(calls: int) -> float:
    """Return the messages a second of the store without HTTP and service."""

    async def run(directory: Path) -> float:
        store = SqliteStore(directory, clock=SystemClock(), ids=RandomIds())
        await store.open()
        try:
            made = await store.control.create_organization(
                OrganizationDraft(name="bench"), actor=ACTOR
            )
            organization = await store.organization(made.id)
            requests = [await _store_requests(organization, calls) for _ in range(CLIENTS)]
            started = time.perf_counter()
            await asyncio.gather(*(_append(organization, prepared) for prepared in requests))
            return time.perf_counter() - started
        finally:
            await store.close()

    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        return CLIENTS * calls * MESSAGES_PER_CALL / asyncio.run(run(Path(directory)))


def _path(conversation: str) -> str:
    return f"/api/v1/conversations/{conversation}/messages"


def _requests(path: str, token: str, calls: int) -> list[bytes]:
    texts = sized(calls * MESSAGES_PER_CALL, characters=MESSAGE_CHARACTERS)
    requests = list[bytes]()
    for _ in range(calls):
        messages = [{"role": "user", "content": next(texts)} for _ in range(MESSAGES_PER_CALL)]
        requests.append(prepare_post(path, {"messages": messages}, token=token))
    return requests


async def _send(port: int, requests: list[bytes]) -> None:
    """Send requests one after the other."""
    async with connected(port) as wire:
        for request in requests:
            await wire.send(request)


async def _store_requests(organization: OrganizationStore, calls: int) -> list[AppendRequest]:
    conversation_id = await organization.create_conversation(ConversationDraft(), actor=ACTOR)
    texts = sized(calls * MESSAGES_PER_CALL, characters=MESSAGE_CHARACTERS)
    return [
        AppendRequest(
            conversation_id=conversation_id,
            messages=tuple(
                MessageDraft(role="user", content=next(texts)) for _ in range(MESSAGES_PER_CALL)
            ),
        )
        for _ in range(calls)
    ]


async def _append(organization: OrganizationStore, requests: list[AppendRequest]) -> None:
    for request in requests:
        await organization.append_messages(request, actor=ACTOR, quota=Quota())

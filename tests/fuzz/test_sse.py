"""Mutated messages to a session of `/sse`: every request is answered once, and the session goes on."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.types import Message

from engram.http.asgi import create_app
from tests.fuzz.mutants import Id, ids_of, mutants
from tests.fuzz.posting import Posting, served
from tests.fuzz.store import furnish_for_key, settings_in
from tests.mcp.connecting import INITIALIZE
from tests.promises import promise

MESSAGES = 1_000
LAST: dict[str, Any] = {"name": "list_conversations", "arguments": {}}

Events = MemoryObjectReceiveStream[bytes]


@asynccontextmanager
async def session(posting: Posting) -> AsyncGenerator[Events]:
    """Yield the events of a session."""
    into, events = anyio.create_memory_object_stream[bytes](100_000)
    ended = anyio.Event()
    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        message = next(asked, None)
        if message is None:
            await ended.wait()
        return message or {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await into.send(message["body"])

    async def live() -> None:
        await posting.app({**posting.scope("/sse", b"", {}), "method": "GET"}, receive, send)

    async with into, events, anyio.create_task_group() as tasks:
        tasks.start_soon(live)
        yield events
        ended.set()


def data_of(event: bytes) -> str:
    """Return the data of an event."""
    (line,) = [line for line in event.decode().splitlines() if line.startswith("data:")]
    return line.removeprefix("data:").strip()


async def answers_to(owed: Counter[Id | None], events: Events) -> list[Any]:
    """Return the messages of a session until every request has its answer."""
    answers = list[Any]()
    with anyio.move_on_after(60):
        while owed - Counter(answer["id"] for answer in answers):
            event = await events.receive()
            answers += [json.loads(data_of(event))] if b"data:" in event else []
    return answers


@promise("clear", mutants=2 * MESSAGES)
@pytest.mark.parametrize("seed", ["sse-1", "sse-2"])
async def test_no_message_ends_the_session_or_stays_unanswered(
    tmp_path: Path, seed: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_in(tmp_path)
    key, ids = await furnish_for_key(settings)
    messages = list(mutants(seed, MESSAGES, ids=ids))
    first = {**INITIALIZE, "id": "first"}
    last: dict[str, Any] = {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": LAST}

    async with served(create_app(settings)) as app, session(Posting(app, key)) as events:
        posting = Posting(app, key)
        address = data_of(await events.receive())
        sent = (json.dumps(first).encode(), *messages, json.dumps(last).encode())
        statuses = [(await posting.post(address, message, {}))[0] for message in sent]
        accepted = [
            ids_of(each) for each, status in zip(sent, statuses, strict=True) if status == 202
        ]
        owed = Counter(own for own, is_owed in accepted if is_owed)
        answers = await answers_to(owed, events)

    assert max(statuses) < 500
    got = Counter(answer["id"] for answer in answers)
    assert not owed - got, f"{seed}: not answered: {owed - got}"
    assert not got - owed, f"{seed}: answered more than once: {got - owed}"
    assert not next(each for each in answers if each["id"] == "last")["result"].get("isError")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

"""Clients and engines that are killed at random: nothing is lost, doubled or left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from engram.engine.launch import reach_engine
from tests.engine.processes import (
    PATIENCE_S,
    Bridge,
    address,
    connected,
    engine_besides,
    engine_process,
    engines_of,
    settings_of,
    wait_until,
)
from tests.mcp.connecting import INITIALIZE

CLIENTS = 200
CALLS = 12
"""Of each of the clients that work while their engines end."""


def new_conversation(client: Bridge, title: str) -> str:
    return client.call("create_conversation", title=title)


def titles(client: Bridge, _conversation_id: str) -> list[str]:
    found = client.call("list_conversations", limit=100, format="full")
    return [each["title"] for each in json.loads(found)["conversations"]]


def contents(client: Bridge, conversation_id: str) -> list[str]:
    found = client.call(
        "get_conversation", conversation_id=conversation_id, message_limit=100, format="full"
    )
    return [each["content"] for each in json.loads(found)["messages"]]


@pytest.mark.parametrize(
    ("number", "store", "stored"),
    [
        pytest.param(signal.SIGKILL, Bridge.keep, contents, id="killed"),
        pytest.param(signal.SIGTERM, new_conversation, titles, id="stopped"),
    ],
)
def test_engines_that_end_at_work_fail_no_call_and_do_none_twice(
    home: Path,
    number: signal.Signals,
    store: Callable[[Bridge, str], str],
    stored: Callable[[Bridge, str], list[str]],
) -> None:
    answered = threading.Semaphore(0)

    def work(client: Bridge, name: str) -> list[str]:
        answers = list[str]()
        for each in range(CALLS):
            answers.append(store(client, f"{name} {each}"))
            answered.release()
        return answers

    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        clients = {name: stack.enter_context(connected(home)) for name in ("one", "two", "three")}
        working = [threads.submit(work, client, name) for name, client in clients.items()]
        ended = list[int]()
        for _ in range(3):
            for _ in range(CALLS // 2):
                assert answered.acquire(timeout=PATIENCE_S)
            engine = wait_until(lambda: engine_besides(home, ended))
            assert engine is not None
            os.kill(engine, number)
            ended.append(engine)
        answers = [answer for each in working for answer in each.result(PATIENCE_S)]
        conversation_id = json.loads(answers[-1])["conversation_id"]

        assert sorted(stored(clients["one"], conversation_id)) == sorted(
            f"{name} {each}" for name in clients for each in range(CALLS)
        )


def test_clients_that_start_and_die_at_random_leave_no_process(home: Path) -> None:
    generator = random.Random(17)  # noqa: S311 - chooses whom to kill
    bridges, links = list[Bridge](), list[socket.socket]()
    for each in range(CLIENTS):
        if each % 8 == 0:
            bridges.append(a_bridge(home, generator))
        else:
            links.append(a_link(home, generator))
        if generator.random() < 0.6:
            generator.choice(bridges).process.kill()
        if links and generator.random() < 0.6:
            links.pop(generator.randrange(len(links))).close()
        if each % 64 == 63:
            os.kill(engine_process(home), signal.SIGKILL)
    for bridge in bridges:
        bridge.process.kill()
        bridge.process.communicate(timeout=PATIENCE_S)
    for link in links:
        link.close()
    with connected(home) as last:
        assert "message 0" in last.call("search", query="message")
        assert last.end() == ""

    wait_until(lambda: not engines_of(home))


def a_bridge(home: Path, generator: random.Random) -> Bridge:
    """Start a client, which may have been answered when this returns, or have been told nothing."""
    bridge = Bridge(home)
    if generator.random() < 0.5:
        bridge.ask(INITIALIZE)
        bridge.keep("message 0")
    return bridge


def a_link(home: Path, generator: random.Random) -> socket.socket:
    """Connect to the engine, and say as much as a client that is killed may have said."""
    link = reach_engine(settings_of(home), address(home), {"toolsets": "notes"})
    line = json.dumps(INITIALIZE).encode() + b"\n"
    link.sendall(line[: generator.choice([0, 10, len(line)])])
    return link

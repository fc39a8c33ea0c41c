"""The bridge answers every request once, whatever becomes of the engine behind it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest

from engram import limits
from engram.bodies.lines import LineTooLongError, split_lines
from engram.engine import FAREWELL
from engram.engine.bridge import Bridge
from engram.errors import StoreCorruptError
from tests.mcp.connecting import INITIALIZE

PATIENCE_S = 120.0
Message = dict[str, Any]


class Engine:
    """The other end of the bridge's connection, in the hands of a test."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lines = split_lines(link.fileno(), bytes_max=1_000_000)

    def receive(self) -> Message:
        line = next(self._lines)
        assert isinstance(line, bytes)
        return json.loads(line)

    def answer(self, request_id: object, **result: object) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "result": result}
        self._link.sendall(json.dumps(message).encode() + b"\n")

    def stop_reading(self) -> None:
        self._link.shutdown(socket.SHUT_RD)

    def say_farewell(self) -> None:
        self._link.sendall(FAREWELL + b"\n")

    def end(self) -> None:
        self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()


class Client:
    """A client of a bridge that runs on a thread of its own."""

    def __init__(self, connect: Callable[[], socket.socket] | None = None) -> None:
        self.engines: Queue[Engine] = Queue()
        self._lines: Queue[bytes | LineTooLongError | None] = Queue()
        reading, writing = os.pipe()
        self._answers = split_lines(reading, bytes_max=1_000_000)
        bridge = Bridge(connect or self._connect, ("conversations", "notes"), output=writing)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=[bridge, writing], daemon=True)
        self._thread.start()

    def send(self, *messages: Message | bytes | LineTooLongError) -> None:
        for message in messages:
            self._lines.put(json.dumps(message).encode() if isinstance(message, dict) else message)

    def receive(self) -> Message:
        line = next(self._answers)
        assert isinstance(line, bytes)
        return json.loads(line)

    def engine(self) -> Engine:
        return self.engines.get(timeout=PATIENCE_S)

    def end(self) -> None:
        self._lines.put(None)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self.engines.put(Engine(theirs))
        return ours

    def _run(self, bridge: Bridge, writing: int) -> None:
        try:
            bridge.run(iter_queue(self._lines))
        except Exception as exc:  # noqa: BLE001 - tests look at what it was
            self.failure = exc
        finally:
            os.close(writing)


def iter_queue(
    lines: Queue[bytes | LineTooLongError | None],
) -> Iterator[bytes | LineTooLongError]:
    while (line := lines.get()) is not None:
        yield line


def call(request_id: int, tool: str) -> Message:
    params: Message = {"name": tool, "arguments": {}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST: Message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def test_the_first_questions_are_answered_before_there_is_an_engine() -> None:
    never = threading.Event()

    def connect() -> socket.socket:
        never.wait()
        raise OSError

    client = Client(connect)
    client.send(INITIALIZE, INITIALIZED, LIST)

    assert client.receive()["result"]["serverInfo"]["name"] == "engram"
    assert client.receive()["result"]["tools"][0]["name"] == "search"
    never.set()
    client.end()


def test_the_engines_own_answer_to_the_handshake_is_dropped() -> None:
    client = Client()
    client.send(INITIALIZE, INITIALIZED)
    engine = client.engine()
    client.receive()
    assert [engine.receive()["method"], engine.receive()["method"]] == [
        "initialize",
        "notifications/initialized",
    ]

    engine.answer(0, server="the engine")
    client.send(call(1, "search"))
    assert engine.receive()["id"] == 1
    engine.answer(1, found="badger")

    assert client.receive()["result"] == {"found": "badger"}
    engine.end()
    client.end()


def test_a_call_that_may_be_repeated_goes_to_the_next_engine() -> None:
    client = Client()
    client.send(INITIALIZE, INITIALIZED, call(1, "search"))
    client.receive()
    first = client.engine()
    assert [first.receive() for _ in range(3)][-1]["id"] == 1
    first.end()

    second = client.engine()
    received = [second.receive() for _ in range(3)]
    second.answer(0)
    second.answer(1, found="badger")

    assert [message.get("method") for message in received] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert client.receive() == {"jsonrpc": "2.0", "id": 1, "result": {"found": "badger"}}
    second.end()
    client.end()


def test_a_call_that_may_not_be_repeated_says_that_its_outcome_is_unknown() -> None:
    client = Client()
    client.send(call(1, "create_conversation"))
    engine = client.engine()
    engine.receive()

    engine.end()

    assert "may or may not" in client.receive()["error"]["message"]
    client.end()


def test_a_call_that_the_engine_cannot_have_read_goes_to_the_next_one() -> None:
    client = Client()
    client.send(call(1, "search"))
    first = client.engine()
    first.receive()
    first.answer(1)
    client.receive()

    first.stop_reading()
    client.send(call(2, "create_conversation"))
    first.end()

    second = client.engine()
    assert second.receive()["id"] == 2
    second.answer(2)
    assert client.receive()["id"] == 2
    second.end()
    client.end()


def test_a_call_unread_by_an_engine_that_ended_in_order_goes_to_the_next_one() -> None:
    client = Client()
    client.send(call(1, "create_conversation"))
    first = client.engine()
    first.receive()

    first.say_farewell()
    first.end()
    second = client.engine()
    assert second.receive()["id"] == 1
    second.answer(1, conversation="made")

    assert client.receive()["result"] == {"conversation": "made"}
    second.end()
    client.end()


def test_an_append_without_a_key_gets_one_and_goes_to_the_next_engine() -> None:
    client = Client()
    message = call(1, "append_messages")
    message["params"]["arguments"] = {"messages": [{"role": "user", "content": "\ud83e"}]}
    client.send(message)
    first = client.engine()
    sent = first.receive()
    first.end()
    second = client.engine()
    repeated = second.receive()
    second.answer(1)
    second.end()
    client.end()

    assert repeated == sent
    assert sent["params"]["arguments"].pop("idempotency_key").startswith("bridge-")
    assert sent == message


def test_a_call_that_ends_every_engine_is_given_up() -> None:
    client = Client()
    client.send(call(1, "search"))

    for _ in range(limits.ENGINE_ATTEMPTS_MAX):
        engine = client.engine()
        engine.receive()
        engine.end()

    assert "may or may not" in client.receive()["error"]["message"]
    client.end()


def test_lines_without_a_request_reach_the_engine_too() -> None:
    client = Client()
    client.send(b"garbage")

    engine = client.engine()

    with pytest.raises(ValueError, match="Expecting value"):
        engine.receive()
    engine.end()
    client.end()


def test_a_cancelled_call_is_not_waited_for() -> None:
    client = Client()
    client.send(call(1, "search"))
    engine = client.engine()
    engine.receive()
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert engine.receive()["method"] == "notifications/cancelled"

    engine.end()

    client.end()
    assert client.engines.empty()


@pytest.mark.parametrize("odd", [[], {}, None, True, 1.5])
def test_a_cancellation_of_nothing_is_passed_on(odd: object) -> None:
    cancel = {"method": "notifications/cancelled", "params": {"requestId": odd}}
    client = Client()
    client.send(call(7, "search"), {"jsonrpc": "2.0", **cancel}, call(8, "search"))

    engine = client.engine()

    assert {engine.receive().get("id") for _ in range(3)} == {7, None, 8}
    engine.answer(7)
    engine.answer(8)
    assert [client.receive()["id"], client.receive()["id"]] == [7, 8]
    engine.end()
    client.end()


def test_a_line_that_is_too_long_is_refused_by_the_bridge() -> None:
    client = Client()

    client.send(LineTooLongError("a line is longer than 7 bytes"))

    assert client.receive()["error"] == {
        "code": -32600,
        "message": "a line is longer than 7 bytes",
    }
    client.engine().end()
    client.end()


def test_a_store_that_cannot_be_opened_fails_every_call_and_the_process() -> None:
    def connect() -> socket.socket:
        raise StoreCorruptError("the file is no database")

    client = Client(connect)
    client.send(call(1, "search"))

    client.end()

    assert isinstance(client.failure, StoreCorruptError)


def test_a_mistake_of_ours_ends_the_process_instead_of_leaving_it_mute() -> None:
    def connect() -> socket.socket:
        raise KeyError("no such thing")

    client = Client(connect)
    client.send(call(1, "search"))

    client.end()
    assert isinstance(client.failure, KeyError)


def test_an_input_that_fails_ends_the_process() -> None:
    def lines() -> Iterator[bytes]:
        raise OSError("the terminal is gone")
        yield b""

    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(OSError, match="terminal is gone"):
        Bridge(lambda: ours, ("notes",)).run(lines())

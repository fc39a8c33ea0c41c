"""One connection whose client sends too much, too slowly or in the wrong way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from engram.http.connections import EdgeBounds
from engram.model.value import replace
from tests.edge.wire import PATIENCE_S, get, post, raw_client, status_of
from tests.promises import promise
from tests.serving import serving

BOUNDS = EdgeBounds(
    connections_max=64,
    connections_per_address_max=64,
    header_s=1,
    transfer_window_s=1,
    transfer_bytes_per_s_min=1_000,
    linger_s=1,
    sweep_s=0.05,
)


@dataclass
class Echo:
    """Reads a body and says how long it was; tells what became of each request."""

    scopes: list[Scope] = field(default_factory=list[Scope])
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    _started: asyncio.Event = field(default_factory=asyncio.Event)

    async def has_started(self, requests: int) -> None:
        """Return when so many requests have come."""
        while len(self.scopes) < requests:
            self._started.clear()
            await self._started.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        self.scopes.append(scope)
        self._started.set()
        match scope["path"]:
            case "/early":
                await _answer(send, b"early")
            case "/endless":
                await self._send_without_end(receive, send)
            case "/wait":
                await self._wait(receive)
            case _:
                await self._count(receive, send)

    async def _count(self, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone.set()
                return
            size += len(message["body"])
            more = message["more_body"]
        await _answer(send, b"%d" % size)

    async def _send_without_end(self, receive: Receive, send: Send) -> None:
        await receive()
        leaving = asyncio.create_task(_disconnected(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not leaving.done():
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
            await asyncio.sleep(0)
        self.gone.set()

    async def _wait(self, receive: Receive) -> None:
        await _disconnected(receive)
        self.gone.set()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _live(receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def _answer(send: Send, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    start: Message = {"type": "http.response.start", "status": 200, "headers": [length]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def url(echo: Echo) -> AsyncGenerator[str]:
    async with serving(echo, BOUNDS) as served:
        yield served


async def test_headers_up_to_the_bound_are_read(url: str, echo: Echo) -> None:
    value = "v" * (BOUNDS.header_bytes_max - 100)
    many = [f"x-{number}: v" for number in range(BOUNDS.headers_max - 1)]

    async with raw_client(url) as client:
        await client.send(get("/early", f"x: {value}"))
        assert status_of(await client.head()) == 200
        assert await client.reader.readexactly(5) == b"early"
        await client.send(get("/early", *many))
        assert status_of(await client.head()) == 200

    assert [len(scope["headers"]) for scope in echo.scopes] == [2, BOUNDS.headers_max]


@promise("fair")
@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/early", "x: " + "v" * BOUNDS.header_bytes_max),
        get("/" + "v" * BOUNDS.header_bytes_max),
        get("/early", *(f"x-{number}: v" for number in range(BOUNDS.headers_max))),
        b"GET / HTTP/1.1\r\nx: " + b"v" * 3_000_000,
        b"GET /" + b"v" * 3_000_000,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"x: v\r\n" * 100_000,
        b"\r\n" * 100_000,
    ],
    ids=[
        "value",
        "path",
        "fields",
        "endless value",
        "endless path",
        "endless fields",
        "line breaks",
    ],
)
async def test_more_headers_than_allowed_are_refused(
    url: str, echo: Echo, request_bytes: bytes
) -> None:
    async with raw_client(url) as client:
        await client.send(request_bytes)
        answer = await client.answer()

    assert status_of(answer) == 431
    assert b'"code":"headers_too_large"' in answer
    assert echo.scopes == []


async def test_what_follows_a_refusal_is_not_read_as_fast_as_it_is_sent(echo: Echo) -> None:
    sent, at_most = 0, 64_000_000
    async with (
        serving(echo, bounds=replace(BOUNDS, waste_bytes_per_s=100_000)) as url,
        raw_client(url) as client,
    ):
        await client.send(get("/").removesuffix(b"\r\n"))
        while not client.writer.is_closing() and sent < at_most:
            await client.send(b"x: " + b"y" * 1_000_000 + b"\r\n")
            sent += 1_000_000

    assert sent < at_most / 2


async def test_a_connection_on_which_nothing_is_sent_is_closed(url: str) -> None:
    async with raw_client(url) as client:
        assert await client.answer() == b""


@promise("fair")
async def test_headers_that_never_end_are_refused(url: str) -> None:
    async with raw_client(url) as client:
        await client.send(get("/early")[:-2])

        assert status_of(await client.answer()) == 408


async def test_a_second_request_has_as_little_time_as_the_first(url: str) -> None:
    async with raw_client(url) as client:
        await client.send(get("/early"))
        await client.head()
        assert await client.reader.readexactly(5) == b"early"
        await client.send(b"G")

        assert status_of(await client.answer()) == 408


@promise("fair")
async def test_a_body_that_stops_is_refused_and_the_request_is_told(url: str, echo: Echo) -> None:
    async with raw_client(url) as client:
        await client.send(post("/", "Content-Length: 100000") + bytes(50_000))
        answer = await client.answer()

    assert status_of(answer) == 408
    assert b'"code":"request_timeout"' in answer
    assert echo.gone.is_set()


async def test_chunks_without_content_are_no_progress(url: str, echo: Echo) -> None:
    async with raw_client(url) as client:
        await client.send(post("/", "Transfer-Encoding: chunked") + b"1;" + b"x" * 2_000)

        assert status_of(await client.answer()) == 408
    assert echo.gone.is_set()


@promise("fair")
async def test_chunks_that_are_all_framing_are_refused(url: str) -> None:
    async with raw_client(url) as client:
        await client.send(post("/", "Transfer-Encoding: chunked"))
        for _ in range(50):
            await client.send(b"1;" + b"x" * 50_000 + b"\r\na\r\n")

        assert status_of(await client.answer()) == 400


async def test_a_body_in_chunks_of_one_byte_is_read(url: str) -> None:
    async with raw_client(url) as client:
        await client.send(post("/", "Transfer-Encoding: chunked"))
        await client.send(b"1\r\na\r\n" * 200_000 + b"0\r\n\r\n")
        await client.head()

        assert await client.reader.readexactly(6) == b"200000"


async def test_trailers_are_no_headers_and_count_among_them(url: str, echo: Echo) -> None:
    body = b"1\r\na\r\n0\r\n"
    async with raw_client(url) as client:
        await client.send(post("/", "Transfer-Encoding: chunked") + body + b"x-late: v\r\n\r\n")
        assert status_of(await client.head()) == 200
    async with raw_client(url) as client:
        await client.send(post("/", "Transfer-Encoding: chunked") + body + b"x: v\r\n" * 200)
        assert status_of(await client.answer()) == 431

    assert [name for name, _ in echo.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


async def test_a_trailer_that_never_ends_is_refused_however_long_the_body_was(url: str) -> None:
    body = b"f4240\r\n" + bytes(1_000_000) + b"\r\n0\r\nx: "
    async with raw_client(url) as client:
        await client.send(post("/", "Transfer-Encoding: chunked") + body)
        for _ in range(50):
            await client.send(b"v" * 100_000)

        assert status_of(await client.answer()) == 400


async def test_the_rest_of_a_body_is_not_awaited_for_long_after_its_answer(url: str) -> None:
    async with raw_client(url) as client:
        await client.send(post("/early", "Content-Length: 100000") + b"some")

        assert (await client.answer()).endswith(b"early")


async def test_a_body_that_ends_after_its_answer_leaves_the_connection_usable(url: str) -> None:
    async with raw_client(url) as client:
        await client.send(post("/early", "Content-Length: 4"))
        await client.head()
        assert await client.reader.readexactly(5) == b"early"
        await client.send(b"late" + get("/early"))

        assert status_of(await client.head()) == 200


@promise("fair")
async def test_an_answer_that_is_not_read_is_cut_off(url: str, echo: Echo) -> None:
    async with raw_client(url) as client:
        await client.send(get("/endless"))
        await client.head()

        # Beyond its small buffer the client's stream takes nothing from the socket.
        with anyio.fail_after(PATIENCE_S):
            await echo.gone.wait()


async def test_an_answer_that_is_read_goes_on(url: str, echo: Echo) -> None:
    async with raw_client(url) as client:
        await client.send(get("/endless"))
        with anyio.fail_after(PATIENCE_S):
            await client.reader.readexactly(20_000_000)

        assert not echo.gone.is_set()


async def test_pipelined_requests_are_answered_in_order(url: str, echo: Echo) -> None:
    paths = [f"/{number}" for number in range(BOUNDS.pipelined_max)]
    async with raw_client(url) as client:
        await client.send(b"".join(get(path) for path in paths))
        for _ in paths:
            assert status_of(await client.head()) == 200
            await client.reader.readexactly(1)

    assert [scope["path"] for scope in echo.scopes] == paths


@promise("fair")
async def test_too_many_pipelined_requests_end_the_connection(url: str, echo: Echo) -> None:
    async with raw_client(url) as client:
        await client.send(get("/wait") + get("/") * 10_000)

        assert await client.answer() == b""
    assert echo.gone.is_set()
    assert len(echo.scopes) == 1


async def test_a_client_that_leaves_is_missed_by_the_request_before_its_last(
    url: str, echo: Echo
) -> None:
    async with raw_client(url) as client:
        await client.send(get("/wait") + get("/"))

    with anyio.fail_after(PATIENCE_S):
        await echo.gone.wait()


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
async def test_an_upgrade_is_answered_as_if_it_were_not_asked_for(
    url: str, echo: Echo, upgrade: str, caplog: pytest.LogCaptureFixture
) -> None:
    fields = ("Connection: Upgrade", f"Upgrade: {upgrade}", "Content-Length: 4")
    async with raw_client(url) as client:
        await client.send(post("/", *fields) + b"body" + b"what follows in that protocol")
        answer = await client.answer()

    assert status_of(answer) == 200
    assert b"connection: close" in answer
    assert len(echo.scopes) == 1
    assert caplog.records == []


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
)
async def test_what_is_not_http_is_refused_without_a_word_in_the_log(
    url: str, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_client(url) as client:
        await client.send(garbage)
        answer = await client.answer()

    assert status_of(answer) == 400
    assert b'"code":"invalid_http"' in answer
    assert caplog.records == []


async def test_idle_connections_give_way_to_a_new_client(echo: Echo) -> None:
    bounds = replace(BOUNDS, connections_max=16, header_s=60)
    async with serving(echo, bounds) as url, AsyncExitStack() as idle:
        for _ in range(50):
            await idle.enter_async_context(raw_client(url))

        async with raw_client(url) as client:
            await client.send(get("/early"))
            assert status_of(await client.head()) == 200


@pytest.mark.parametrize("bound", ["connections_max", "connections_per_address_max"])
async def test_a_new_client_is_told_when_every_connection_is_at_work(
    echo: Echo, bound: str
) -> None:
    bounds = replace(BOUNDS, **{bound: 4})
    async with serving(echo, bounds) as url, AsyncExitStack() as busy:
        for _ in range(4):
            client = await busy.enter_async_context(raw_client(url))
            await client.send(get("/wait"))
        with anyio.fail_after(PATIENCE_S):
            await echo.has_started(4)

        async with raw_client(url) as refused:
            answer = await refused.answer()

    assert status_of(answer) == 503
    assert b"Retry-After: 1" in answer
    assert b'"code":"too_many_connections"' in answer

"""The relay answers every request, whatever the server does."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from subprocess import CompletedProcess
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engram.mcp.relay import header_value, routing_headers
from tests.mcp.connecting import HANDSHAKE, MODERN, RunningServer, engram_environment
from tests.serving import serving

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


def request(request_id: int, method: str, **params: Any) -> bytes:
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(body).encode()


async def run_relay(url: str, *lines: bytes, **settings: str) -> CompletedProcess[bytes]:
    with anyio.fail_after(30):
        return await anyio.run_process(
            [sys.executable, "-m", "engram", "mcp"],
            input=b"".join(line + b"\n" for line in lines),
            env=engram_environment({"URL": url, **settings}),
        )


async def relayed(url: str, *lines: bytes, **settings: str) -> list[dict[str, Any]]:
    """Return the answers to `lines`, sent at once through the relay."""
    ended = await run_relay(url, *lines, **settings)
    return [json.loads(line) for line in ended.stdout.splitlines()]


async def odd_server(request: Request) -> Response:
    """Answer as the method of the message says."""
    message = await request.json()
    result = dict(request.headers) if message["method"] == "headers" else {"ok": 1}
    answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": result}
    notice = {"jsonrpc": "2.0", "method": "notifications/message"}
    events = f": hi\r\n\r\nevent: message\r\ndata: {json.dumps(notice)}\r\n\r\n"
    stream, plain = "text/event-stream", "application/json"
    answers = {
        "stream": Response(events + f"data: {json.dumps(answer)}\r\n\r\n", media_type=stream),
        "stream that ends early": Response(": hi\n\n", media_type=stream),
        "pretty": Response(json.dumps(answer, indent=2), media_type=plain),
        "headers": Response(json.dumps(answer), media_type=plain),
        "html": Response("<h1>Bad gateway</h1>", status_code=502),
        "redirect": Response(status_code=307, headers={"Location": "/elsewhere"}),
        "nothing": Response(status_code=202),
        "no json": Response("{", media_type=plain),
    }
    return answers[message["method"]]


@pytest.fixture
async def odd_url() -> AsyncGenerator[str]:
    """The URL of a server that answers oddly."""
    routes = [Route("/mcp", odd_server, methods=["POST"])]
    async with serving(Starlette(routes=routes)) as url:
        yield url


async def test_a_streamed_answer_becomes_lines(odd_url: str) -> None:
    answers = await relayed(odd_url, request(1, "stream"))

    assert [answer.get("method", answer.get("result")) for answer in answers] == [
        "notifications/message",
        {"ok": 1},
    ]


async def test_an_answer_of_several_lines_becomes_one(odd_url: str) -> None:
    assert await relayed(odd_url, request(1, "pretty")) == [
        {"jsonrpc": "2.0", "id": 1, "result": {"ok": 1}}
    ]


@pytest.mark.parametrize(
    "method", ["html", "redirect", "nothing", "no json", "stream that ends early"]
)
async def test_a_request_that_gets_no_answer_becomes_an_error(odd_url: str, method: str) -> None:
    (answer,) = await relayed(odd_url, request(5, method))

    assert answer["id"] == 5
    assert answer["error"]["message"]


async def test_a_server_that_is_not_there_becomes_an_error() -> None:
    answers = await relayed("http://127.0.0.1:9", request(1, "ping"), request(2, "ping"))

    assert {answer["id"] for answer in answers} == {1, 2}
    assert all("127.0.0.1:9" in answer["error"]["message"] for answer in answers)


async def test_a_wrong_key_becomes_an_error(server: RunningServer) -> None:
    (answer,) = await relayed(server.url, request(1, "ping"), API_KEY="engram_sk_live_wrong")

    assert answer["error"]["message"].startswith("unauthenticated: ")
    assert answer["error"]["data"]["status"] == 401


async def test_lines_that_are_no_messages_become_errors(server: RunningServer) -> None:
    answers = await relayed(server.url, b"garbage", b"[]", b"", API_KEY=server.key)

    assert sorted(answer["error"]["code"] for answer in answers) == [-32700, -32600]


async def test_a_notification_gets_no_answer(server: RunningServer) -> None:
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()

    assert await relayed(server.url, line, API_KEY=server.key) == []


async def test_a_lost_notification_is_logged(odd_url: str) -> None:
    line = json.dumps({"jsonrpc": "2.0", "method": "html"}).encode()

    ended = await run_relay(odd_url, line)

    assert ended.stdout == b""
    assert b"502" in ended.stderr


async def test_the_era_of_a_message_decides_its_headers(odd_url: str) -> None:
    meta = {VERSION_KEY: MODERN}

    answers = await relayed(odd_url, request(1, "headers"), request(2, "headers", _meta=meta))

    handshake, modern = sorted(answers, key=lambda answer: answer["id"])
    assert "mcp-protocol-version" not in handshake["result"]
    assert handshake["result"]["accept"] == "application/json, text/event-stream"
    assert modern["result"]["mcp-protocol-version"] == MODERN
    assert modern["result"]["mcp-method"] == "headers"


async def test_toolsets_chosen_here_are_asked_for_there(server: RunningServer) -> None:
    (answer,) = await relayed(
        server.url, request(1, "tools/list"), API_KEY=server.key, TOOLSETS="conversations"
    )

    assert len(answer["result"]["tools"]) == 6


def test_the_agreed_version_is_sent_until_a_message_names_its_own() -> None:
    call = {"method": "tools/call", "params": {"name": "search"}}
    own = {"method": "tools/call", "params": {"name": "search", "_meta": {VERSION_KEY: MODERN}}}

    assert routing_headers(call, agreed_version=None) == {}
    assert routing_headers(call, agreed_version=HANDSHAKE) == {"MCP-Protocol-Version": HANDSHAKE}
    assert routing_headers(own, agreed_version=HANDSHAKE) == {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "search",
    }


@given(st.text())
@example("=?base64?YQ==?=")
@example(" search ")
@example("naïve")
def test_any_name_reaches_the_server_unchanged(name: str) -> None:
    value = header_value(name)

    assert value.isascii()
    assert value == value.strip()
    assert decode_header_value(value) == name

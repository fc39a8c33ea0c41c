"""The bound on a request's body, announced or counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from engram import limits
from engram.transport.middleware.answers import AnswerHeaders
from engram.transport.middleware.bodies import BodyLimit
from engram.transport.middleware.failures import Failures
from tests.rest.calls import refusal, stored

BOUND = 10


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(body)(scope, receive, send)


async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
    """Turn every failure to read the body into an answer of its own."""
    try:
        await echo(scope, receive, send)
    except Exception:  # noqa: BLE001 - as an application that is not ours may do
        await PlainTextResponse("mine", status_code=500)(scope, receive, send)


def connected(app: ASGIApp) -> httpx.AsyncClient:
    guarded = AnswerHeaders(Failures(BodyLimit(app, bytes_max=BOUND)))
    return httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://localhost")


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_body_at_the_bound_passes_announced_or_in_pieces() -> None:
    async with connected(echo) as client:
        announced = await client.post("/", content=b"x" * BOUND)
        counted = await client.post("/", content=in_pieces(b"x" * 4, b"", b"x" * 6))

    assert announced.content == counted.content == b"x" * BOUND


@pytest.mark.parametrize("app", [echo, stubborn])
async def test_a_body_past_the_bound_is_refused_announced_or_in_pieces(app: ASGIApp) -> None:
    async with connected(app) as client:
        announced = await client.post("/", content=b"x" * (BOUND + 1))
        counted = await client.post("/", content=in_pieces(b"x" * 6, b"x" * 6))

    assert refusal(announced) == refusal(counted) == (413, "request_too_large", "body")


async def test_an_announced_length_past_the_bound_is_refused_unread(
    api: httpx.AsyncClient,
) -> None:
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(limits.BODY_BYTES_MAX + 1),
    }

    answer = await api.post("/api/v1/messages", content=b"", headers=headers)

    assert refusal(answer) == (413, "request_too_large", "body")
    assert await stored(api) == (0, 0)


@pytest.mark.parametrize("length", ["x", "-1", "1e3", "²", "9" * 4_301])
async def test_a_length_that_is_no_number_is_refused(api: httpx.AsyncClient, length: str) -> None:
    headers = {b"Content-Length": length.encode("latin-1")}

    answer = await api.post("/api/v1/messages", content=b"", headers=headers)

    assert refusal(answer) == (400, "invalid_request", "Content-Length")


async def test_ten_megabytes_of_escapes_fit_a_body(api: httpx.AsyncClient) -> None:
    escaped = b"\\u00e9" * (limits.MESSAGE_BYTES_MAX // 2)
    body = b'{"messages":[{"role":"user","content":"' + escaped + b'"}]}'

    answer = await api.post(
        "/api/v1/messages", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.json()["appended"] == 1

"""The bounds of a request's body: by route, by shape, and checked before it is read."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

from engram import limits
from engram.api.operation import STREAMED
from engram.api.table import OPERATIONS
from engram.http.asgi import Application
from engram.http.routes import OperationRoute, operation_routes
from tests.promises import promise
from tests.rest.calls import connect, refusal, scoped_key, stored

JSON = {"Content-Type": "application/json"}
ONE = '{"messages":[{"role":"user","content":"%s"}]}'

BOUNDS = {
    "append_messages": limits.BODY_BYTES_MAX,
    "append_messages_to_default": limits.BODY_BYTES_MAX,
    "capture_session": limits.BODY_BYTES_MAX,
    "memory_store_batch": limits.BODY_BYTES_MAX,
    "memory_store": limits.MEMORY_BODY_BYTES_MAX,
    "memory_correct": limits.MEMORY_BODY_BYTES_MAX,
    "store_notes": limits.NOTES_BODY_BYTES_MAX,
    "add_part": limits.UPLOAD_PART_BYTES_MAX,
    "memory_store_document": STREAMED,
    "import": STREAMED,
}
"""The operations that take more than a search does."""


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@asynccontextmanager
async def narrow(
    app: Application, api: httpx.AsyncClient, *scopes: str
) -> AsyncGenerator[httpx.AsyncClient]:
    """Yield a client of the same organisation whose key may do only this."""
    async with connect(app, await scoped_key(api, *scopes)) as client:
        yield client


@promise("bodies")
def test_every_route_declares_its_scopes_and_a_bound_for_its_body() -> None:
    routes = [
        route for route in operation_routes(OPERATIONS, {}) if isinstance(route, OperationRoute)
    ]

    declared = {route.name: route.operation for route in routes}

    assert len(declared) == len(routes)
    assert {name: needs.body_bytes_max for name, needs in declared.items()} == {
        name: BOUNDS.get(name, limits.CONTROL_BODY_BYTES_MAX) for name in declared
    }
    without_scope = {route.name for route in routes if not declared[route.name].scopes}
    assert without_scope == {route.name for route in routes if route.path.startswith("/admin")}


@promise("bodies")
@pytest.mark.parametrize(
    ("path", "bound", "field"),
    [
        ("/api/v1/messages", limits.BODY_BYTES_MAX, "body"),
        ("/api/v1/search", limits.CONTROL_BODY_BYTES_MAX, "body"),
        ("/api/v1/notes", limits.CONTROL_BODY_BYTES_MAX, "body"),
        ("/api/v1/notes/batch", limits.NOTES_BODY_BYTES_MAX, "body"),
        ("/api/v1/memories", limits.MEMORY_BODY_BYTES_MAX, "body"),
    ],
)
async def test_an_announced_length_past_the_bound_of_a_route_is_refused_unread(
    api: httpx.AsyncClient, path: str, bound: int, field: str
) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("nobody may read this")
        yield b""

    answer = await api.post(
        path, content=never(), headers={**JSON, "Content-Length": str(bound + 1)}
    )

    assert refusal(answer) == (413, "request_too_large", field)
    assert answer.json()["limit"] == bound
    assert await stored(api) == (0, 0)


@promise("bodies")
async def test_a_body_in_pieces_is_counted_and_refused_past_the_bound(
    api: httpx.AsyncClient,
) -> None:
    spaces = b" " * (limits.CONTROL_BODY_BYTES_MAX // 2)

    within = await api.post(
        "/api/v1/search", content=in_pieces(spaces, b'{"query":"x"}'), headers=JSON
    )
    past = await api.post("/api/v1/search", content=in_pieces(spaces, spaces, b" "), headers=JSON)

    assert within.status_code == 200
    assert refusal(past) == (413, "request_too_large", "body")


@promise("bodies")
async def test_a_key_without_the_scope_is_refused_before_its_body_is_read(
    app: Application, api: httpx.AsyncClient
) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("nobody may read this")
        yield b""

    async with narrow(app, api, "search") as searcher:
        headers = {**JSON, "Content-Length": "1000"}
        answer = await searcher.post("/api/v1/messages", content=never(), headers=headers)

    assert refusal(answer) == (403, "insufficient_scope", None)


@pytest.mark.parametrize("length", ["x", "-1", "1e3", "²", "9" * 5_000])
async def test_a_length_that_is_no_number_is_refused(api: httpx.AsyncClient, length: str) -> None:
    headers = {b"Content-Length": length.encode("latin-1")}

    answer = await api.post("/api/v1/messages", content=b"", headers=headers)

    assert refusal(answer) == (400, "invalid_request", "Content-Length")


@promise("bodies")
@pytest.mark.parametrize(
    ("body", "unit"),
    [
        (b"[" + b"{}," * limits.JSON_VALUES_MAX + b"{}]", "values"),
        (b'{"messages":[' + b"[]," * limits.JSON_VALUES_MAX + b"[]]}", "values"),
        (b'{"messages":[' + b'"a",' * limits.JSON_VALUES_MAX + b'"a"]}', "values"),
        (b'{"messages":' + b"[" * limits.JSON_DEPTH_MAX, "levels"),
        (b'{"a":' * 5_000_000, "levels"),
    ],
    ids=["objects", "lists", "texts", "deep", "deep and large"],
)
async def test_too_many_values_or_levels_are_refused_before_they_are_built(
    api: httpx.AsyncClient, body: bytes, unit: str
) -> None:
    answer = await api.post("/api/v1/messages", content=body, headers=JSON)

    assert refusal(answer) == (400, "limit_exceeded", "body")
    assert answer.json()["unit"] == unit
    assert await stored(api) == (0, 0)


async def test_a_large_body_without_texts_is_refused(api: httpx.AsyncClient) -> None:
    spaces = b" " * limits.JSON_STRUCTURE_BYTES_MAX

    answer = await api.post("/api/v1/messages", content=b"{" + spaces + b"}", headers=JSON)

    assert refusal(answer) == (413, "request_too_large", "body")


@promise("verbatim")
@pytest.mark.parametrize(
    "content",
    [
        "\x01" * 300_000,
        'é🦝\n"\\' * 100_000,
        "x" * 300_000 + "\ud83e\udd9d".encode("utf-16", "surrogatepass").decode("utf-16"),
    ],
    ids=["control characters", "escapes", "plain"],
)
@pytest.mark.parametrize("is_ascii", [True, False])
async def test_long_texts_come_back_as_they_were_sent(
    api: httpx.AsyncClient, content: str, *, is_ascii: bool
) -> None:
    name = "a name of some length"
    message = {"role": "user", "content": content, "name": name, "metadata": {"a": ["b" * 5_000]}}
    body = json.dumps({"messages": [message, message]}, ensure_ascii=is_ascii).encode()

    made = (await api.post("/api/v1/messages", content=body, headers=JSON)).json()

    read = await api.get(f"/api/v1/conversations/{made['conversation_id']}")
    for kept in read.json()["messages"]:
        assert {key: kept[key] for key in message} == message


@pytest.mark.parametrize(
    ("content", "code", "field"),
    [
        (b"x" * 300_000 + b"\\ud83e", "invalid_request", "messages[0].content"),
        (b"x" * 300_000 + b"\\x", "malformed_json", None),
        (b"x" * 300_000 + b"\n", "malformed_json", None),
        (b"x" * 300_000 + b"\xff", "malformed_json", None),
        (b"x" * (limits.MESSAGE_BYTES_MAX + 1), "limit_exceeded", "messages[0].content"),
    ],
    ids=["lone surrogate", "unknown escape", "bare line break", "not UTF-8", "too long"],
)
async def test_a_long_text_that_cannot_be_kept_is_refused_like_a_short_one(
    api: httpx.AsyncClient, content: bytes, code: str, field: str | None
) -> None:
    body = ONE.encode() % content

    answer = await api.post("/api/v1/messages", content=body, headers=JSON)

    assert refusal(answer) == (400, code, field)
    assert await stored(api) == (0, 0)


async def test_ten_megabytes_of_escapes_fit_a_body(api: httpx.AsyncClient) -> None:
    body = ONE.encode() % (b"\\u00e9" * (limits.MESSAGE_BYTES_MAX // 2))

    answer = await api.post("/api/v1/messages", content=body, headers=JSON)

    assert answer.json()["appended"] == 1


async def test_many_large_requests_of_two_organisations_all_get_their_turn(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    body = ONE.encode() % (b"x " * 1_000_000)
    answers = list[httpx.Response]()

    async def append(client: httpx.AsyncClient) -> None:
        answers.append(await client.post("/api/v1/messages", content=body, headers=JSON))

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for client in (api, stranger) * 3:
                tasks.start_soon(append, client)

    assert [answer.status_code for answer in answers] == [200] * 6

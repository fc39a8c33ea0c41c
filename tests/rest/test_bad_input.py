"""Whatever a client gets wrong has its own answer, and nothing of it is stored."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from engram import limits
from tests.promises import promise
from tests.rest.calls import new_conversation, refusal, stored

pytestmark = promise("clear")

A_MESSAGE = {"role": "user", "content": "hello"}
JSON = {"Content-Type": "application/json"}


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def a_message(**fields: Any) -> dict[str, Any]:
    return {"messages": [A_MESSAGE, {**A_MESSAGE, **fields}]}


BODIES: list[tuple[str, Any, str, str | None]] = [
    ("no messages", {"messages": []}, "invalid_request", "messages"),
    ("messages missing", {}, "invalid_request", "messages"),
    ("201 messages", {"messages": [A_MESSAGE] * 201}, "limit_exceeded", "messages"),
    ("not a list", {"messages": A_MESSAGE}, "invalid_request", "messages"),
    ("unknown role", a_message(role="robot"), "invalid_request", "messages[1].role"),
    ("role missing", {"messages": [{"content": "x"}]}, "invalid_request", "messages[0].role"),
    ("content missing", {"messages": [{"role": "user"}]}, "invalid_request", "messages[0].content"),
    ("content null", a_message(content=None), "invalid_request", "messages[1].content"),
    ("content a number", a_message(content=1), "invalid_request", "messages[1].content"),
    ("unknown argument", {"messages": [A_MESSAGE], "force": True}, "invalid_request", "force"),
    ("unknown field", a_message(text="x"), "invalid_request", "messages[1].text"),
    ("10 MB and a byte", a_message(content="x" * (limits.MESSAGE_BYTES_MAX + 1)), "limit_exceeded", "messages[1].content"),
    ("10 MB in two-byte letters", a_message(content="é" * (limits.MESSAGE_BYTES_MAX // 2 + 1)), "limit_exceeded", "messages[1].content"),
    ("deep metadata", a_message(metadata=nested(33)), "limit_exceeded", "messages[1].metadata"),
    ("large metadata", a_message(metadata={"a": "x" * 65_536}), "limit_exceeded", "messages[1].metadata"),
    ("metadata a list", a_message(metadata=[]), "invalid_request", "messages[1].metadata"),
    ("time without a zone", a_message(occurred_at="2026-01-01T00:00:00"), "invalid_request", "messages[1].occurred_at"),
    ("time before time", a_message(occurred_at="0001-01-01T00:00:00+14:00"), "invalid_request", "messages[1].occurred_at"),
    ("empty name", a_message(name=""), "invalid_request", "messages[1].name"),
    ("long name", a_message(name="n" * 257), "limit_exceeded", "messages[1].name"),
    ("invisible name", a_message(name="a\u202eb"), "invalid_request", "messages[1].name"),
    ("long idempotency key", {"messages": [A_MESSAGE], "idempotency_key": "k" * 257}, "limit_exceeded", "idempotency_key"),
    ("a list", [A_MESSAGE], "invalid_request", None),
    ("a string", "hello", "invalid_request", None),
    ("null", None, "invalid_request", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [case[1:] for case in BODIES],
    ids=[case[0] for case in BODIES],
)
async def test_wrong_messages_are_refused_and_none_is_stored(
    api: httpx.AsyncClient, body: object, code: str, field: str | None
) -> None:
    path = f"/api/v1/conversations/{await new_conversation(api)}/messages"

    answer = await api.post(path, content=json.dumps(body), headers=JSON)

    assert refusal(answer) == (400, code, field)
    assert await stored(api) == (1, 0)


RAW: list[tuple[str, bytes, str, str | None]] = [
    ("no body", b"", "malformed_json", None),
    ("truncated", b'{"messages": [{"role": "user", "content": "hel', "malformed_json", None),
    ("not JSON", b"role=user&content=hello", "malformed_json", None),
    ("single quotes", b"{'messages': []}", "malformed_json", None),
    ("two documents", b'{"messages": []}{"messages": []}', "malformed_json", None),
    ("not UTF-8", b'{"messages": [{"role": "user", "content": "\xff"}]}', "malformed_json", None),
    ("UTF-16", '{"messages": []}'.encode("utf-16"), "malformed_json", None),
    ("bare NUL", b'{"messages": [{"role": "user", "content": "\x00"}]}', "malformed_json", None),
    ("nesting without end", b"[" * 100_000, "limit_exceeded", "body"),
    ("first surrogate alone", b'{"messages":[{"role":"user","content":"\\ud800"}]}', "invalid_request", "messages[0].content"),
    ("second surrogate alone", b'{"messages":[{"role":"user","content":"a\\udfffb"}]}', "invalid_request", "messages[0].content"),
    ("surrogates reversed", b'{"messages":[{"role":"user","content":"\\udc00\\ud800"}]}', "invalid_request", "messages[0].content"),
    ("surrogate in a name", b'{"messages":[{"role":"user","content":"","name":"\\ud800"}]}', "invalid_request", "messages[0].name"),
    ("not a number", b'{"messages":[{"role":"user","content":"","metadata":{"a":NaN}}]}', "invalid_request", "messages[0].metadata"),
    ("endless number", b'{"messages":[{"role":"user","content":"","metadata":{"a":1e999}}]}', "invalid_request", "messages[0].metadata"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "code", "field"), [case[1:] for case in RAW], ids=[case[0] for case in RAW]
)
async def test_a_body_that_is_no_json_text_is_refused_and_nothing_is_stored(
    api: httpx.AsyncClient, body: bytes, code: str, field: str | None
) -> None:
    path = f"/api/v1/conversations/{await new_conversation(api)}/messages"

    answer = await api.post(path, content=body, headers=JSON)

    assert refusal(answer) == (400, code, field)
    assert await stored(api) == (1, 0)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "multipart/form-data; boundary=x",
    ],
)
async def test_another_content_type_is_refused(
    api: httpx.AsyncClient, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    body = json.dumps({"messages": [A_MESSAGE]}).encode()

    answer = await api.post("/api/v1/messages", content=body, headers=headers)

    assert refusal(answer) == (415, "unsupported_media_type", None)
    assert await stored(api) == (0, 0)


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"']
)
async def test_json_in_utf8_may_say_so(api: httpx.AsyncClient, content_type: str) -> None:
    body = json.dumps({"messages": [A_MESSAGE]}).encode()

    answer = await api.post(
        "/api/v1/messages", content=body, headers={"Content-Type": content_type}
    )

    assert answer.status_code == 200


CONVERSATIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"title": "t" * 1_025}, "limit_exceeded", "title"),
    ({"title": 7}, "invalid_request", "title"),
    ({"tags": [str(number) for number in range(51)]}, "limit_exceeded", "tags"),
    ({"tags": ["a" * 257]}, "limit_exceeded", "tags[0]"),
    ({"tags": ["a", "a"]}, "invalid_request", "tags"),
    ({"tags": "a"}, "invalid_request", "tags"),
    ({"project": "p" * 129}, "limit_exceeded", "project"),
    ({"project": "a\x00b"}, "invalid_request", "project"),
    ({"agent_id": ""}, "invalid_request", "agent_id"),
    ({"metadata": nested(33)}, "limit_exceeded", "metadata"),
    ({"metadata": {"a": "x" * 65_536}}, "limit_exceeded", "metadata"),
    ({"organization_id": "org_other"}, "invalid_request", "organization_id"),
]


@pytest.mark.parametrize(("body", "code", "field"), CONVERSATIONS)
async def test_a_wrong_conversation_is_refused_and_not_stored(
    api: httpx.AsyncClient, body: dict[str, Any], code: str, field: str
) -> None:
    answer = await api.post("/api/v1/conversations", json=body)

    assert refusal(answer) == (400, code, field)
    assert await stored(api) == (0, 0)


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("conversations?limit=0", "limit"),
        ("conversations?limit=101", "limit"),
        ("conversations?offset=-1", "offset"),
        ("conversations?offset=9007199254740993", "offset"),
        ("conversations?sort=title", "sort"),
        ("conversations?order=up", "order"),
        ("conversations?page=2", "page"),
        ("conversations?limit=1&limit=2", "limit"),
        ("conversations?tags=a&tags=a", "tags"),
        ("conversations/{id}?message_limit=0", "message_limit"),
        ("conversations/{id}?message_limit=501", "message_limit"),
        ("conversations/{id}?message_offset=-1", "message_offset"),
        ("conversations/{id}?around_sequence=0", "around_sequence"),
        ("conversations/{id}?around_sequence=3&message_offset=1", "around_sequence"),
        ("conversations/{id}?limit=1", "limit"),
        ("audit?limit=501", "limit"),
        ("audit?before=2026-01-01T00:00:00", "before"),
        ("status?verbose=1", "verbose"),
        ("keys?x", "x"),
    ],
)
async def test_wrong_parameters_are_refused_and_named(
    api: httpx.AsyncClient, address: str, field: str
) -> None:
    path = address.replace("{id}", await new_conversation(api))

    assert refusal(await api.get(f"/api/v1/{path}")) == (400, "invalid_request", field)


async def test_a_parameter_beside_a_body_is_refused(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/v1/conversations?title=x", json={})

    assert refusal(answer) == (400, "invalid_request", "title")
    assert await stored(api) == (0, 0)


@pytest.mark.parametrize(
    "path", ["/api", "/api/v1", "/api/v1/", "/api/v2/search", "/api/v1/conversations/"]
)
async def test_an_unknown_address_is_a_problem_too(api: httpx.AsyncClient, path: str) -> None:
    assert refusal(await api.get(path)) == (404, "not_found", None)


async def test_a_method_that_no_route_takes_is_told_the_ones_that_are(
    api: httpx.AsyncClient,
) -> None:
    answer = await api.put("/api/v1/conversations", json={})

    assert refusal(answer) == (405, "method_not_allowed", None)
    assert answer.headers["allow"] == "GET, POST"


async def test_an_append_to_an_unknown_conversation_makes_none(api: httpx.AsyncClient) -> None:
    path = "/api/v1/conversations/conv_AAAAAAAAAAAAAAAAAAAAA/messages"

    answer = await api.post(path, json={"messages": [A_MESSAGE]})

    assert refusal(answer) == (404, "not_found", None)
    assert await stored(api) == (0, 0)


async def test_a_call_of_more_than_32_megabytes_is_too_large(api: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "x" * 9_000_000}] * 4

    answer = await api.post("/api/v1/messages", json={"messages": messages})

    assert refusal(answer) == (413, "request_too_large", "messages")
    assert answer.json()["limit"] == limits.CALL_BYTES_MAX
    assert await stored(api) == (0, 0)

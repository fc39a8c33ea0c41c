"""`/mcp` as seen by clients that speak HTTP and JSON-RPC themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anyio
import httpx
import pytest

from engram import limits
from tests.mcp.connecting import HANDSHAKE, MODERN, RunningServer, bearer
from tests.promises import promise

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST_CALL: dict[str, Any] = {"name": "list_conversations", "arguments": {"format": "full"}}


@pytest.fixture
async def http(server: RunningServer) -> AsyncGenerator[httpx.AsyncClient]:
    """A client with a key and nothing else."""
    headers = bearer(server.key)
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def handshake_call(params: Mapping[str, Any] = LIST_CALL) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": dict(params)}
    return {"json": body, "headers": {"MCP-Protocol-Version": HANDSHAKE}}


def modern_call(**headers: str) -> dict[str, Any]:
    params = {**LIST_CALL, "_meta": META}
    named = {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "list_conversations",
    }
    return {
        "json": {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params},
        "headers": {**named, **headers},
    }


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
async def test_other_methods_are_refused_at_once(
    http: httpx.AsyncClient, method: str, version: str
) -> None:
    headers = {"Accept": "text/event-stream", "MCP-Protocol-Version": version}

    with anyio.fail_after(60):
        response = await http.request(method, "/mcp", headers=headers)

    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_a_call_needs_no_handshake_and_no_session(http: httpx.AsyncClient) -> None:
    for request in (handshake_call(), modern_call()):
        response = await http.post("/mcp", **request)

        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in response.headers
        assert response.json()["id"] == 7
        assert response.json()["result"]["structuredContent"]["next_offset"] is None


async def test_a_message_without_a_version_is_of_the_handshake_era(http: httpx.AsyncClient) -> None:
    response = await http.post("/mcp", json={"jsonrpc": "2.0", "id": "a", "method": "ping"})

    assert response.json() == {"jsonrpc": "2.0", "id": "a", "result": {}}


async def test_the_handshake_agrees_on_a_version(http: httpx.AsyncClient) -> None:
    for asked, agreed in (("2025-06-18", "2025-06-18"), ("1999-01-01", HANDSHAKE)):
        params = {
            "protocolVersion": asked,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

        response = await http.post("/mcp", json=body)

        assert response.json()["result"]["protocolVersion"] == agreed


async def test_a_notification_is_accepted_without_an_answer(http: httpx.AsyncClient) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    for version in (HANDSHAKE, MODERN):
        response = await http.post("/mcp", json=body, headers={"MCP-Protocol-Version": version})

        assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize("space", [" ", "\t", "  \t "])
async def test_whitespace_around_protocol_headers_does_not_count(
    server: RunningServer, space: str
) -> None:
    # Sent by hand, because HTTP clients take the whitespace away.
    request = modern_call()
    body = json.dumps(request["json"]).encode()
    padded = {name: f"{space}{value}{space}" for name, value in request["headers"].items()}
    headers = {"Host": "127.0.0.1", "Content-Type": "application/json", **bearer(server.key)}
    head = {**headers, "Content-Length": str(len(body)), "Connection": "close", **padded}
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]

    port = httpx.URL(server.url).port
    assert port is not None
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send("\r\n".join(lines).encode() + body)
        answer = b"".join([piece async for piece in stream])

    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_headers_that_contradict_the_body_are_refused(http: httpx.AsyncClient) -> None:
    response = await http.post("/mcp", **modern_call(**{"Mcp-Name": "delete_conversation"}))

    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32020


async def test_an_unknown_version_is_refused_with_the_known_ones(http: httpx.AsyncClient) -> None:
    request = modern_call()
    request["json"]["params"]["_meta"] = {
        **META,
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
    }
    request["headers"]["MCP-Protocol-Version"] = "2099-01-01"

    response = await http.post("/mcp", **request)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32022
    assert MODERN in response.json()["error"]["data"]["supported"]


@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'"ping"', -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        *(
            (b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % odd, -32600)
            for odd in (b"{}", b"true", b"false", b"null", b"1.5", b"[1]", b"[null]", b"1e400")
        ),
        (b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"9" * 5_000), -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600),
        (b'{"jsonrpc":null,"id":null,"method":null,"params":null}', -32600),
    ],
)
async def test_a_body_that_is_no_message_is_refused(
    http: httpx.AsyncClient, version: str, body: bytes, code: int
) -> None:
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": version}

    response = await http.post("/mcp", content=body, headers=headers)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == code
    assert response.json()["id"] in {None, 1}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_another_content_type_is_refused(http: httpx.AsyncClient, content_type: str) -> None:
    for request in (handshake_call(), modern_call()):
        request["headers"]["Content-Type"] = content_type

        response = await http.post("/mcp", **request)

        assert response.status_code == 415
        assert response.json()["error"]["data"]["code"] == "unsupported_media_type"


async def test_a_client_that_does_not_accept_json_is_refused(http: httpx.AsyncClient) -> None:
    request = handshake_call()
    request["headers"]["Accept"] = "text/html"

    response = await http.post("/mcp", **request)

    assert response.status_code == 406


async def test_a_body_over_the_bound_is_refused(http: httpx.AsyncClient) -> None:
    async def too_much() -> AsyncGenerator[bytes]:
        for _ in range(limits.BODY_BYTES_MAX // 2**20 + 1):
            yield b" " * 2**20

    headers = {"Content-Type": "application/json"}

    response = await http.post("/mcp", content=too_much(), headers=headers)

    assert response.status_code == 413


@promise("one-refusal")
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer nonsense", "Basic YTpi", "Bearer engram_sk_live_x"],
)
async def test_a_call_without_a_valid_key_is_refused(
    server: RunningServer, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as anonymous:
        for path in ("/mcp", "/messages/?session_id=0"):
            response = await anonymous.post(path, **handshake_call())

            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")
        response = await anonymous.get("/sse")

    assert response.status_code == 401


async def test_lone_surrogates_are_refused_by_the_field_that_holds_them(
    http: httpx.AsyncClient,
) -> None:
    content = b'{"role":"user","content":"half a \\ud83e badger"}'
    for request in (handshake_call(), modern_call(**{"Mcp-Name": "append_messages"})):
        request["json"]["params"] |= {"name": "append_messages", "arguments": {"messages": ["?"]}}
        body = json.dumps(request["json"]).encode().replace(b'"?"', content)
        headers = {"Content-Type": "application/json", **request["headers"]}

        response = await http.post("/mcp", content=body, headers=headers)

        result = response.json()["result"]
        assert result["isError"]
        assert result["_meta"]["engram/error"]["field"] == "messages[0].content"


async def test_names_with_lone_surrogates_are_refused(http: httpx.AsyncClient) -> None:
    body = json.dumps(handshake_call({**LIST_CALL, "arguments": {"?": 1}})["json"]).encode()
    headers = {"Content-Type": "application/json"}

    response = await http.post("/mcp", content=body.replace(b'"?"', b'"a\\ud83e"'), headers=headers)

    assert response.status_code == 200
    assert "error" in response.json() or response.json()["result"]["isError"]


@pytest.mark.parametrize("request_id", [0, -1, 2**64, 10**30, "", "\u202e", "x" * 9_999])
async def test_an_id_of_any_size_comes_back(http: httpx.AsyncClient, request_id: object) -> None:
    for request in (handshake_call(), modern_call()):
        request["json"]["id"] = request_id

        response = await http.post("/mcp", **request)

        assert response.json()["id"] == request_id
        assert "result" in response.json()


async def test_an_unknown_method_is_refused(http: httpx.AsyncClient) -> None:
    response = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/sing"})

    assert response.json()["error"]["code"] == -32601


async def test_numbers_beyond_64_bits_in_metadata_do_not_make_a_conversation_unreadable(
    http: httpx.AsyncClient,
) -> None:
    arguments = {"metadata": {"n": 10**30}}

    created = await http.post(
        "/mcp", **handshake_call({"name": "create_conversation", "arguments": arguments})
    )
    listed = await http.post("/mcp", **handshake_call())

    assert "result" in created.json()
    assert not listed.json()["result"].get("isError")

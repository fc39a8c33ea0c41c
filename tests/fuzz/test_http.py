"""Mutated messages to `/mcp` in both eras: an answer below 500 to each, and nothing in the log."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from engram.http.asgi import create_app
from engram.mcp.relay import routing_headers
from tests.fuzz.mutants import ids_of, is_object, mutants
from tests.fuzz.posting import Posting, served
from tests.fuzz.store import furnish_for_key, settings_in
from tests.mcp.connecting import HANDSHAKE, MODERN
from tests.promises import promise

MESSAGES = 2_000
LAST: dict[str, Any] = {"name": "list_conversations", "arguments": {}}


@promise("clear", mutants=6 * MESSAGES)
@pytest.mark.parametrize("seed", [f"http-{number}" for number in range(1, 7)])
async def test_no_message_is_an_error_of_the_server(
    tmp_path: Path, seed: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_in(tmp_path)
    key, ids = await furnish_for_key(settings)

    async with served(create_app(settings)) as app:
        posting = Posting(app, key)
        for number, message in enumerate(mutants(seed, MESSAGES, ids=ids)):
            status, body = await posting.post("/mcp", message, headers_for(message))

            assert status < 500, f"{seed}/{number}: {status} {body!r} to {message[:2000]!r}"
            check_answer(message, status, body)
        last: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": "last",
            "method": "tools/call",
            "params": LAST,
        }
        status, body = await posting.post("/mcp", json.dumps(last).encode(), {})

    assert status == 200
    assert not json.loads(body)["result"].get("isError")
    failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not failures


def headers_for(message: bytes) -> dict[str, str]:
    """Return the headers that a client would name the message by; those of later eras say more."""
    try:
        decoded: Any = json.loads(message)
    except (ValueError, RecursionError):
        return {"MCP-Protocol-Version": MODERN if len(message) % 2 else HANDSHAKE}
    return routing_headers(decoded if is_object(decoded) else {}, agreed_version=HANDSHAKE)


def check_answer(message: bytes, status: int, body: bytes) -> None:
    """Check that there is an answer where one is owed, and that it is to this message."""
    own, is_owed = ids_of(message)
    if status == 202:
        assert not is_owed, message
        return
    answer = json.loads(body)
    assert answer["id"] in (own, None), message
    assert answer.get("error", {}).get("code") != -32603, message

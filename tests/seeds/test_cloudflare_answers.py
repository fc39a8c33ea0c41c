"""Answers in the shape that clients of Engram on Cloudflare know: its own example, asked as it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dirty_equals import IsFloat, IsPartialDict, IsStr
from mcp import Client

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.settings import Settings
from tests.mcp.connecting import call, in_process_client
from tests.rest.calls import ADMIN_TOKEN, connect, new_conversation, new_key
from tests.storage.places import is_database, place

__all__ = ["place"]
"""A fixture of another module."""

QUESTION = "what embedding model to use"
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "What embedding model should we use for search?"},
    {"role": "assistant", "content": "Use bge-base-en-v1.5.\nIt has 768 dimensions."},
    {
        "role": "tool",
        "content": '{"dimensions": 768}',
        "tool_call_id": "call_1",
        "tool_name": "describe_model",
        "metadata": {"took_ms": 12},
    },
    {"role": "assistant", "content": "The embedding model is settled."},
    {"role": "user", "content": "Good."},
    {"role": "assistant", "content": "Next is the index."},
]

MOMENT = IsStr(regex=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def row(sequence: int) -> dict[str, Any]:
    """Return a row of its table `messages`, every column of it."""
    empty = {"tool_call_id": None, "tool_name": None, "metadata": None}
    return {
        "id": IsStr(regex=r"msg_[\w-]{21}"),
        "conversation_id": IsStr(regex=r"conv_[\w-]{21}"),
        "sequence": sequence,
        **empty,
        **MESSAGES[sequence - 1],
        "created_at": MOMENT,
    }


def check_shape(answer: dict[str, Any], conversation_id: str) -> None:
    first = answer["results"][0]
    assert first == IsPartialDict(
        score=IsFloat(ge=0, le=1),
        chunk_id=IsStr(regex=r"chk_[\w-]{21}"),
        conversation_id=conversation_id,
        conversation_title="Embeddings",
        tags=["ml"],
        start_sequence=1,
        end_sequence=5,
    )
    assert first["chunk_text"] == "\n".join(
        f"[{message['role']}]: {message['content']}" for message in MESSAGES[:5]
    )
    assert first["messages"] == [IsPartialDict(row(sequence)) for sequence in range(1, 6)]
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with in_process_client(tmp_path) as connected:
        yield connected


async def test_a_window_over_mcp_has_the_text_and_every_column_of_its_messages(
    client: Client,
) -> None:
    made = await call(client, "create_conversation", title="Embeddings", tags=["ml"])
    conversation_id = made["conversation_id"]
    appended = await call(
        client, "append_messages", conversation_id=conversation_id, messages=MESSAGES
    )

    asked = {"query": QUESTION, "detail": "window", "format": "full"}
    result = await client.call_tool("search", asked)

    assert appended == IsPartialDict(appended=6, message_ids=[IsStr(regex="msg_.+")] * 6)
    assert result.structured_content is not None
    check_shape(result.structured_content, conversation_id)


@pytest.fixture
async def api(tmp_path: Path, place: str) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of REST, on each database."""
    settings = Settings(
        home=tmp_path / "home",
        database_url=place if is_database(place) else None,
        embedder=NoEmbedder(),
        admin_token=ADMIN_TOKEN,
    )
    app = create_app(settings)
    async with app.lifespan():
        async with connect(app, ADMIN_TOKEN) as operator:
            key = await new_key(operator)
        async with connect(app, key) as connected:
            yield connected


async def test_a_window_over_rest_has_the_text_and_every_column_of_its_messages(
    api: httpx.AsyncClient,
) -> None:
    conversation_id = await new_conversation(api, title="Embeddings", tags=["ml"])
    messages = f"/api/v1/conversations/{conversation_id}/messages"
    await api.post(messages, json={"messages": MESSAGES})

    by_address = await api.get("/api/v1/search", params={"q": QUESTION, "detail": "window"})
    by_body = await api.post("/api/v1/search", json={"query": QUESTION, "detail": "window"})

    check_shape(by_address.json(), conversation_id)
    assert by_body.content == by_address.content


async def test_messages_that_were_chosen_one_by_one_have_no_empty_columns(client: Client) -> None:
    await call(client, "append_messages", messages=MESSAGES)

    answer = await call(client, "search", query=QUESTION)

    (first, *_) = answer["results"][0]["messages"]
    assert first.keys() == {"id", "sequence", "role", "content", "created_at", "score"}

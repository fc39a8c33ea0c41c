"""What must hold of a store of an earlier version after its upgrade."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx

from engram.embedding.choice import Hashed
from engram.http.asgi import create_app
from engram.settings import Settings
from tests.cli.commands import Engram
from tests.rest.calls import connect
from tests.upgrades.versions import Written


def assert_whole(
    engram: Engram, written: Sequence[Written], *, database_url: str | None = None
) -> None:
    """Assert that all was kept verbatim and is found, that keys work, and that doctor finds nothing."""
    settings = Settings(
        home=engram.home, embedder=Hashed(), rate_limit=0, database_url=database_url
    )
    asyncio.run(_read_all(settings, written))
    variables = {} if database_url is None else {"database_url": database_url}
    report = engram("doctor", "--repair", "--json", **variables).json
    assert [] == report["findings"]
    assert [] == engram("doctor", "--json", **variables).json["findings"]


async def _read_all(settings: Settings, written: Sequence[Written]) -> None:
    app = create_app(settings)
    async with app.lifespan():
        for each in written:
            async with connect(app, each.key) as api:
                await _read_one(api, each)


async def _read_one(api: httpx.AsyncClient, written: Written) -> None:
    for conversation_id, texts in written.conversations.items():
        answer = (
            (await api.get(f"/api/v1/conversations/{conversation_id}")).raise_for_status().json()
        )
        assert texts == [message["content"] for message in answer["messages"]]
    for memory_id, text in written.memories.items():
        answer = (await api.get(f"/api/v1/memories/{memory_id}")).raise_for_status().json()
        assert text == answer["content"]
    for document_id, text in written.documents.items():
        answer = (await api.get(f"/api/v1/documents/{document_id}")).raise_for_status()
        assert text == answer.text
    for word in ("terminal", "東京", "hotel"):
        found = (await api.post("/api/v1/search", json={"query": word})).raise_for_status().json()
        assert any(word in str(result) for result in found["results"])
    listed = (await api.get("/api/v1/conversations")).raise_for_status().json()
    ids = [each["id"] for each in listed["conversations"]]
    assert sorted(written.conversations) == sorted(ids)
    said = {"messages": [{"role": "user", "content": "and it goes on with a quokka"}]}
    (await api.post("/api/v1/messages", json=said)).raise_for_status()
    found = (await api.post("/api/v1/search", json={"query": "quokka"})).raise_for_status().json()
    assert found["results"]

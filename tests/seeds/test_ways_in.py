"""Every field of a memory survives every way in: engram-go lost some of them on some paths."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from msgspec.structs import asdict

from engram.clock import RandomIds, SystemClock, format_time
from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.model.access import OrganizationDraft, Principal
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft, NoteDraft
from engram.model.recall import MemoryFetch
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import open_service
from tests.rest.calls import connect
from tests.storage.memory_drafts import memory_drafts
from tests.tool_calls import call_tool


@dataclass(frozen=True, slots=True)
class House:
    """One organisation, reached in every way there is."""

    service: Service
    principal: Principal
    api: httpx.AsyncClient
    store: SqliteStore

    async def call_tool(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await call_tool(self.service, self.principal, tool, **arguments)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self.api.post(f"/api/v1{path}", json=body)
        assert response.status_code == 201, response.text
        return response.json()

    async def kept_fields(self, memory_id: str) -> dict[str, Any]:
        """Return of a stored memory what a draft of it would say."""
        request = MemoryFetch(id=MemoryId(memory_id))
        memory = (await self.service.memories.fetch(self.principal, request)).memory
        return {name: getattr(memory, name) for name in MemoryDraft.__struct_fields__}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    home = tmp_path / "store"
    chosen = Settings(home=home, embedder=NoEmbedder(), rate_limit=0)
    application = create_app(chosen)
    store = SqliteStore(home, clock=SystemClock(), ids=RandomIds())
    async with application.lifespan(), open_service(chosen) as service:
        _, made = await service.operator.create_organization(OrganizationDraft(name="acme"))
        principal = await service.access.authenticate(made.secret)
        await store.open()
        async with connect(application, made.secret) as api:
            yield House(service, principal, api, store)
        await store.close()


def as_sent(draft: MemoryDraft) -> dict[str, Any]:
    """Return a draft as a client would send it."""
    given_fields = {name: value for name, value in asdict(draft).items() if value is not None}
    return {
        name: format_time(value) if isinstance(value, datetime) else value
        for name, value in given_fields.items()
    }


ANOTHER: dict[str, Any] = {"content": "another memory"}


async def by_service(house: House, draft: MemoryDraft) -> str:
    return (await house.service.memories.store(house.principal, draft)).memories[0].id


async def by_service_in_a_batch(house: House, draft: MemoryDraft) -> str:
    drafts = [MemoryDraft(**ANOTHER), draft]
    return (await house.service.memories.store_batch(house.principal, drafts)).memories[1].id


async def by_memory_store(house: House, draft: MemoryDraft) -> str:
    return (await house.call_tool("memory_store", **as_sent(draft)))["id"]


async def by_memory_store_batch(house: House, draft: MemoryDraft) -> str:
    memories = [ANOTHER, as_sent(draft)]
    return (await house.call_tool("memory_store_batch", memories=memories))["ids"][1]


async def by_memory_store_batch_of_a_project(house: House, draft: MemoryDraft) -> str:
    sent = as_sent(draft)
    project = sent.pop("project")
    return (await house.call_tool("memory_store_batch", memories=[sent], project=project))["ids"][0]


async def by_rest(house: House, draft: MemoryDraft) -> str:
    return (await house.post("/memories", as_sent(draft)))["id"]


async def by_rest_in_a_batch(house: House, draft: MemoryDraft) -> str:
    return (await house.post("/memories/batch", {"memories": [ANOTHER, as_sent(draft)]}))["ids"][1]


WAYS_IN: list[Callable[[House, MemoryDraft], Awaitable[str]]] = [
    by_service,
    by_service_in_a_batch,
    by_memory_store,
    by_memory_store_batch,
    by_memory_store_batch_of_a_project,
    by_rest,
    by_rest_in_a_batch,
]


@pytest.mark.parametrize("way", WAYS_IN, ids=lambda way: way.__name__)
@given(draft=memory_drafts)
@settings(max_examples=10)
async def test_every_field_of_a_memory_survives(
    house: House, way: Callable[[House, MemoryDraft], Awaitable[str]], draft: MemoryDraft
) -> None:
    organization = await house.store.organization(house.principal.organization_id)
    episode_id = await organization.memories.start_episode("default", "an episode", actor="test")
    sent = replace(draft, episode_id=episode_id)

    memory_id = await way(house, sent)

    assert await house.kept_fields(memory_id) == {
        name: getattr(sent, name) for name in MemoryDraft.__struct_fields__
    }


async def note_by_tool(house: House, **sent: Any) -> str:
    return (await house.call_tool("store_note", **sent))["id"]


async def note_by_rest(house: House, **sent: Any) -> str:
    return (await house.post("/notes", sent))["id"]


async def note_by_rest_in_a_batch(house: House, **sent: Any) -> str:
    return (await house.post("/notes/batch", {"notes": [ANOTHER, sent]}))["notes"][1]["id"]


@pytest.mark.parametrize(
    "way", [note_by_tool, note_by_rest, note_by_rest_in_a_batch], ids=lambda way: way.__name__
)
async def test_every_field_of_a_note_survives(
    house: House, way: Callable[..., Awaitable[str]]
) -> None:
    draft = NoteDraft(
        content="The harbour opens at six.\r\n\x00\u202e",
        category="technical",
        source="harbour master",
        tags=("times", "harbour"),
        project="port",
    )

    memory_id = await way(
        house,
        content=draft.content,
        category=draft.category,
        source=draft.source,
        tags=draft.tags,
        project=draft.project,
    )

    assert await house.kept_fields(memory_id) == {
        name: getattr(draft.as_memory(), name) for name in MemoryDraft.__struct_fields__
    }

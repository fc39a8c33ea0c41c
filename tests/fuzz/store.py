"""A store with something of every kind, so that mutated messages meet what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engram.embedding.choice import NoEmbedder
from engram.model.access import OrganizationDraft, Principal
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.tool_calls import call_tool

Ids = tuple[str, ...]


def settings_in(home: Path) -> Settings:
    """Return the settings of a server that has files and no rate limit."""
    (home / "files").mkdir(parents=True, exist_ok=True)
    return Settings(
        home=home / "store", data_dir=home / "files", embedder=NoEmbedder(), rate_limit=0
    )


async def furnish_for_key(settings: Settings) -> tuple[str, Ids]:
    """Make an organisation with something of every kind; return its key and the ids."""
    async with open_service(settings) as service:
        _, key = await service.operator.create_organization(OrganizationDraft(name="acme"))
        principal = await service.access.authenticate(key.secret)
        return key.secret, await _furnish(service, principal)


async def furnish_locally(settings: Settings) -> Ids:
    """Give the local organisation something of every kind; return the ids."""
    async with open_service(settings) as service:
        return await _furnish(service, await service.access.local_principal())


async def _furnish(service: Service, principal: Principal) -> Ids:
    async def made(tool: str, **arguments: Any) -> Any:
        return await call_tool(service, principal, tool, **arguments)

    messages = [{"role": "user", "content": "The harbour opens at six."}] * 3
    said = await made("append_messages", messages=messages)
    episode = await made("memory_episode_start", description="Harbours")
    first = await made("memory_store", content="The harbour is deep.", source="pilot")
    second = await made("memory_store", content="The harbour is shallow.")
    await made(
        "memory_connect",
        source_id=first["id"],
        target_id=second["id"],
        relation_type="contradicts",
    )
    document = await made("memory_store_document", content="# Harbours\n\nThey open at six.\n")
    upload = await made("memory_ingest_document_stream", action="start")
    return (
        said["conversation_id"],
        episode["episode_id"],
        first["id"],
        second["id"],
        document["document_id"],
        document["id"],
        upload["upload_id"],
    )

"""What the tests of transports need: an owner's things, and tools called as somebody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.http.asgi import Application
from engram.model.access import Principal
from engram.model.changes import ManyMemories
from engram.model.erasure import ErasureRequest
from engram.model.retention import HoldDraft, RetentionDraft
from engram.service import Service
from tests.tool_calls import call_tool

MARKER = "tanuki4711"
"""Stands in every text of the owner, and in nobody else's."""

PROJECT = f"{MARKER}-project"
ABSENT = "x" * 21

Ids = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Party:
    """An organisation with its key."""

    principal: Principal
    secret: str


@dataclass(frozen=True, slots=True)
class House:
    """Everything there is."""

    app: Application
    service: Service
    owner: Party
    stranger: Party
    ids: Ids

    @property
    def absent_ids(self) -> Ids:
        """Ids such as the owner's that belong to nobody."""
        return {
            name: value.partition("_")[0] + f"_{ABSENT}" for name, value in self.ids.items()
        } | {"own": self.ids["own"]}

    async def call(self, party: Party, tool: str, **arguments: Any) -> Any:
        """Return what a tool answers somebody."""
        return await call_tool(self.service, party.principal, tool, **arguments)


async def furnish(service: Service, owner: Party, stranger: Party) -> Ids:
    """Give the owner something of every kind, and return the ids of it; `own` is the stranger's."""

    async def made(party: Party, tool: str, **arguments: Any) -> Any:
        return await call_tool(service, party.principal, tool, **arguments)

    message = {"role": "user", "content": f"{MARKER} said this"}
    said = await made(owner, "append_messages", messages=[message])
    episode = await made(
        owner, "memory_episode_start", description=f"{MARKER} work", project=PROJECT
    )
    fields = {
        "project": PROJECT,
        "tags": [MARKER],
        "source": MARKER,
        "episode_id": episode["episode_id"],
    }
    first = await made(owner, "memory_store", content=f"{MARKER} holds", **fields)
    second = await made(owner, "memory_store", content=f"{MARKER} held", **fields)
    pair = {"source_id": first["id"], "target_id": second["id"], "project": PROJECT}
    await made(owner, "memory_connect", relation_type="supersedes", **pair)
    await made(
        owner, "memory_correct", memory_id=first["id"], content=f"{MARKER} held on", project=PROJECT
    )
    await made(owner, "memory_feedback", memory_ids=[first["id"]], project=PROJECT)
    await made(owner, "memory_export_all", output_path="export")
    body = f"# {MARKER}\n\n{MARKER} is in the body\n"
    document = await made(owner, "memory_store_document", content=body, **fields)
    upload = await made(owner, "memory_ingest_document_stream", action="start", **fields)
    part = {"action": "append", "upload_id": upload["upload_id"], "part": 0}
    await made(owner, "memory_ingest_document_stream", text=f"{MARKER} begins", **part)
    gone = await made(owner, "create_conversation", title=f"{MARKER} thrown away")
    trashed = gone["conversation_id"]
    await made(owner, "append_messages", conversation_id=trashed, messages=[message])
    await made(owner, "delete_conversation", conversation_id=trashed, undo=True)
    rule = await service.retention.set_rule(
        owner.principal, RetentionDraft(keep="9y", project=PROJECT)
    )
    hold = await service.retention.add_hold(
        owner.principal, HoldDraft(reason=MARKER, project=f"{MARKER} held")
    )
    erasure = await service.erasure.erase(owner.principal, ErasureRequest(subject=f"name={MARKER}"))
    changed = await service.changes.change_memories(
        owner.principal, ManyMemories(change="importance", importance=1, ids=(second["id"],))
    )
    assert changed.change_id is not None
    own = await made(stranger, "memory_store", content="nothing special")
    keys = await service.access.list_keys(owner.principal)
    return {
        "conversation": said["conversation_id"],
        "memory": first["id"],
        "episode": episode["episode_id"],
        "key": keys[0].id,
        "export": "export",
        "document": document["document_id"],
        "document_memory": document["id"],
        "upload": upload["upload_id"],
        "trashed": trashed,
        "rule": rule.id,
        "hold": hold.id,
        "erasure": erasure.id,
        "change": changed.change_id,
        "own": own["id"],
    }


def filled(value: Any, ids: Ids) -> Any:
    """Return `value` with ids in the place of their names in braces."""
    if isinstance(value, str):
        return value.format_map(ids) if "{" in value else value
    if isinstance(value, list):
        return [filled(item, ids) for item in value]  # pyright: ignore[reportUnknownVariableType] of any depth
    if isinstance(value, dict):
        return {name: filled(item, ids) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType] of any depth
    return value

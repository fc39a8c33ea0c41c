"""Typed memories: keeping, recalling, reading and tending them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from engram import limits
from engram.model.ids import MemoryId
from engram.model.memory_reading import MemoryFetch
from engram.transport import answers, requests
from engram.transport.rest import memory_inputs as inputs
from engram.transport.rest.needs import needs
from engram.transport.rest.paths import MemoryPath
from engram.transport.rest.routes import Call, JsonRoute

router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["memories"])

FOR_NO_REASON = inputs.Forgetting()
"""What an empty body asks for."""


@router.post("/memories", operation_id="memory_store", status_code=201)
@needs("write", body_bytes_max=limits.MEMORY_BODY_BYTES_MAX)
async def memory_store(call: Call, body: requests.StoreMemory) -> answers.MemoryStored:
    """Keep a memory verbatim; it is durable and findable when this is answered."""
    kept = await call.service.memories.store(call.principal, body.to_model())
    call.warn_of_quota(kept.quota_warning)
    return answers.memory_stored(kept)


@router.post("/memories/recall", operation_id="memory_recall")
@needs("search")
async def memory_recall(call: Call, body: requests.RecallMemories) -> answers.MemoriesRecalled:
    """Find memories by words and meaning, weighed by importance and recency."""
    recalled = await call.service.memory_recall.recall(call.principal, body.to_model())
    return answers.memories_recalled(recalled, body.to_shape(), warnings=body.to_warnings())


@router.post("/memories/batch", operation_id="memory_store_batch", status_code=201)
@needs("write", body_bytes_max=limits.BODY_BYTES_MAX)
async def memory_store_batch(call: Call, body: requests.StoreMemories) -> answers.MemoriesStored:
    """Keep several memories, all or none."""
    kept = await call.service.memories.store_batch(call.principal, body.to_model())
    call.warn_of_quota(kept.quota_warning)
    return answers.memories_stored(kept)


@router.post("/memories/feedback", operation_id="memory_feedback")
@needs("write")
async def memory_feedback(call: Call, body: requests.MemoryFeedback) -> answers.FeedbackRecorded:
    """Say which recalled memories helped, and which did not."""
    count = await call.service.memories.feedback(
        call.principal, body.to_model(), project=body.project
    )
    return answers.feedback_recorded(count)


@router.get("/memories", operation_id="memory_list")
@needs("read")
async def memory_list(
    call: Call, query: Annotated[requests.ListMemories, Query()]
) -> answers.MemoriesListed:
    """List a project's memories, newest first, with their true total."""
    page = await call.service.memories.list(call.principal, query.to_model())
    return answers.memories_listed(page, token_budget=query.token_budget)


@router.get("/memories/timeline", operation_id="memory_timeline")
@needs("read")
async def memory_timeline(
    call: Call, query: Annotated[requests.Timeline, Query()]
) -> answers.TimelineRead:
    """Read what was known and held at a moment of the past, as it was then."""
    asked = query.to_model()
    memories = await call.service.memories.timeline(call.principal, asked)
    return answers.timeline_read(asked.as_of, memories, token_budget=query.token_budget)


@router.get("/memories/status", operation_id="memory_status")
@needs("read")
async def memory_status(
    call: Call, query: Annotated[requests.MemoryStatusOf, Query()]
) -> answers.MemoryStatusRead:
    """Say what the memories of a project amount to."""
    status = await call.service.memories.status(call.principal, query.project)
    return answers.memory_status_read(status)


@router.get("/memories/{memory_id:memory_id}", operation_id="memory_fetch")
@needs("read")
async def memory_fetch(call: Call, memory_id: MemoryPath) -> answers.MemoryView:
    """Read a memory, verbatim and whole; a forgotten one says that it is."""
    request = MemoryFetch(memory_id=MemoryId(memory_id))
    fetched = await call.service.memories.fetch(call.principal, request)
    return answers.memory_view(fetched.memory)


@router.patch("/memories/{memory_id:memory_id}", operation_id="memory_correct")
@needs("write", body_bytes_max=limits.MEMORY_BODY_BYTES_MAX)
async def memory_correct(
    call: Call, memory_id: MemoryPath, body: inputs.Correction
) -> answers.MemoryCorrected:
    """Correct a memory; what it said before stays in its history."""
    corrected = await call.service.memories.correct(
        call.principal, MemoryId(memory_id), body.to_change()
    )
    return answers.memory_corrected(corrected, is_shown=call.principal.allows("read"))


@router.delete("/memories/{memory_id:memory_id}", operation_id="memory_purge")
@needs("delete")
async def memory_purge(
    call: Call, memory_id: MemoryPath, query: Annotated[inputs.PurgeQuery, Query()]
) -> answers.EntryRemoved:
    """Remove a memory with everything derived from it; a tombstone without the text stays."""
    tombstone = await call.service.memories.purge(
        call.principal, MemoryId(memory_id), force=query.force
    )
    return answers.entry_removed(tombstone)


@router.post("/memories/{memory_id:memory_id}/forget", operation_id="memory_forget")
@needs("delete")
async def memory_forget(
    call: Call, memory_id: MemoryPath, body: inputs.Forgetting = FOR_NO_REASON
) -> answers.MemoryForgotten:
    """End a memory's validity; it is searched no more, and stays in the history."""
    forgotten = await call.service.memories.forget(
        call.principal, MemoryId(memory_id), reason=body.reason
    )
    return answers.memory_forgotten(forgotten)


@router.get("/memories/{memory_id:memory_id}/history", operation_id="memory_history")
@needs("read")
async def memory_history(
    call: Call, memory_id: MemoryPath, query: Annotated[inputs.HistoryQuery, Query()]
) -> answers.MemoryHistoryRead:
    """Read what a memory said before each of its changes, oldest first."""
    history = await call.service.memories.history(call.principal, MemoryId(memory_id))
    return answers.memory_history_read(history, token_budget=query.token_budget)


@router.get("/memories/{memory_id:memory_id}/relations", operation_id="memory_relations")
@needs("read")
async def memory_relations(
    call: Call, memory_id: MemoryPath, query: Annotated[inputs.RelationsQuery, Query()]
) -> answers.RelationsListed:
    """List the relations around a memory, nearest first."""
    relations = await call.service.memories.relations(
        call.principal, MemoryId(memory_id), hops=query.hops
    )
    return answers.relations_listed(relations)


@router.post(
    "/memories/{memory_id:memory_id}/relations", operation_id="memory_connect", status_code=201
)
@needs("write")
async def memory_connect(
    call: Call, memory_id: MemoryPath, body: inputs.Connection
) -> answers.MemoriesConnected:
    """Relate a memory to another; the same pair and type again takes the new strength."""
    relation = await call.service.memories.connect(call.principal, body.to_draft(memory_id))
    return answers.memories_connected(relation)


@router.get("/projects", operation_id="memory_projects")
@needs("read")
async def memory_projects(call: Call) -> answers.ProjectsListed:
    """List the projects that have memories, by name."""
    return answers.projects_listed(await call.service.memories.projects(call.principal))

"""The tools of the toolset `memories`, under the names that engram-go's clients know."""

from __future__ import annotations

from typing import Any

from engram import limits
from engram.model.access import Principal
from engram.model.ids import MemoryId
from engram.service import Service
from engram.transport import answers, requests
from engram.transport.mcp.tools.tool import Answer, Tool, warned

TOOLSET = "memories"


async def _memory_store(
    service: Service, principal: Principal, request: requests.StoreMemory
) -> Answer:
    kept = await service.memories.store(principal, request.to_model())
    return warned(answers.memory_stored(kept), kept.quota_warning)


async def _memory_store_batch(
    service: Service, principal: Principal, request: requests.StoreMemories
) -> Answer:
    kept = await service.memories.store_batch(principal, request.to_model())
    return warned(answers.memories_stored(kept), kept.quota_warning)


async def _memory_recall(
    service: Service, principal: Principal, request: requests.RecallMemories
) -> Answer:
    recalled = await service.memory_recall.recall(principal, request.to_model())
    return answers.memories_recalled(recalled, request.to_shape(), warnings=request.to_warnings())


async def _memory_fetch(
    service: Service, principal: Principal, request: requests.FetchMemory
) -> Answer:
    return answers.memory_fetched(await service.memories.fetch(principal, request.to_model()))


async def _memory_list(
    service: Service, principal: Principal, request: requests.ListMemories
) -> Answer:
    page = await service.memories.list(principal, request.to_model())
    return answers.memories_listed(page, token_budget=request.token_budget)


async def _memory_history(
    service: Service, principal: Principal, request: requests.MemoryHistoryOf
) -> Answer:
    history = await service.memories.history(
        principal, MemoryId(request.memory_id), project=request.project
    )
    return answers.memory_history_read(history, token_budget=request.token_budget)


async def _memory_timeline(
    service: Service, principal: Principal, request: requests.Timeline
) -> Answer:
    memories = await service.memories.timeline(principal, request.to_model())
    return answers.timeline_read(request.as_of, memories, token_budget=request.token_budget)


async def _memory_connect(
    service: Service, principal: Principal, request: requests.ConnectMemories
) -> Answer:
    relation = await service.memories.connect(
        principal, request.to_model(), project=request.project
    )
    return answers.memories_connected(relation)


async def _memory_correct(
    service: Service, principal: Principal, request: requests.CorrectMemory
) -> Answer:
    corrected = await service.memories.correct(
        principal, MemoryId(request.memory_id), request.to_change(), project=request.project
    )
    return answers.memory_corrected(
        corrected, is_shown=principal.allows("read"), token_budget=request.token_budget
    )


async def _memory_forget(
    service: Service, principal: Principal, request: requests.ForgetMemory
) -> Answer:
    forgotten = await service.memories.forget(
        principal, MemoryId(request.memory_id), reason=request.reason, project=request.project
    )
    return answers.memory_forgotten(forgotten)


async def _memory_feedback(
    service: Service, principal: Principal, request: requests.MemoryFeedback
) -> Answer:
    count = await service.memories.feedback(principal, request.to_model(), project=request.project)
    return answers.feedback_recorded(count)


async def _memory_projects(
    service: Service, principal: Principal, request: requests.ListProjects
) -> Answer:
    sizes = await service.memories.projects(principal, project=request.project)
    return answers.projects_listed(sizes)


async def _memory_status(
    service: Service, principal: Principal, request: requests.MemoryStatusOf
) -> Answer:
    return answers.memory_status_read(await service.memories.status(principal, request.project))


MEMORY_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        name="memory_store",
        title="Keep a memory",
        description="Keep a decision, pattern, error, preference or fact, verbatim.",
        toolset=TOOLSET,
        request=requests.StoreMemory,
        answer=answers.MemoryStored,
        run=_memory_store,
        body_bytes_max=limits.MEMORY_BODY_BYTES_MAX,
    ),
    Tool(
        name="memory_store_batch",
        title="Keep memories",
        description="Keep up to 100 memories, all or none.",
        toolset=TOOLSET,
        request=requests.StoreMemories,
        answer=answers.MemoriesStored,
        run=_memory_store_batch,
        body_bytes_max=limits.BODY_BYTES_MAX,
    ),
    Tool(
        name="memory_recall",
        title="Recall memories",
        description="Find memories that answer a question. Handles cost little: fetch what you need.",
        toolset=TOOLSET,
        request=requests.RecallMemories,
        answer=answers.MemoriesRecalled,
        run=_memory_recall,
        reads=True,
    ),
    Tool(
        name="memory_fetch",
        title="Read a memory",
        description="Read a memory: a summary, all of it, or chunks of it.",
        toolset=TOOLSET,
        request=requests.FetchMemory,
        answer=answers.MemoryFetched,
        run=_memory_fetch,
        reads=True,
    ),
    Tool(
        name="memory_list",
        title="List memories",
        description="List memories, newest first.",
        toolset=TOOLSET,
        request=requests.ListMemories,
        answer=answers.MemoriesListed,
        run=_memory_list,
        reads=True,
    ),
    Tool(
        name="memory_history",
        title="Read a memory's history",
        description="Read what a memory said before each change, oldest first.",
        toolset=TOOLSET,
        request=requests.MemoryHistoryOf,
        answer=answers.MemoryHistoryRead,
        run=_memory_history,
        reads=True,
    ),
    Tool(
        name="memory_timeline",
        title="Look back",
        description="Read what was known and held at a moment of the past.",
        toolset=TOOLSET,
        request=requests.Timeline,
        answer=answers.TimelineRead,
        run=_memory_timeline,
        reads=True,
    ),
    Tool(
        name="memory_connect",
        title="Relate memories",
        description="Relate a memory to another: source supersedes target, and so on.",
        toolset=TOOLSET,
        request=requests.ConnectMemories,
        answer=answers.MemoriesConnected,
        run=_memory_connect,
        repeatable=True,
    ),
    Tool(
        name="memory_correct",
        title="Correct a memory",
        description="Change a memory; its history keeps what it said. What is left out stays.",
        toolset=TOOLSET,
        request=requests.CorrectMemory,
        answer=answers.MemoryCorrected,
        run=_memory_correct,
        body_bytes_max=limits.MEMORY_BODY_BYTES_MAX,
    ),
    Tool(
        name="memory_forget",
        title="Forget a memory",
        description="End a memory: it is recalled no more, and stays in its history.",
        toolset=TOOLSET,
        request=requests.ForgetMemory,
        answer=answers.MemoryForgotten,
        run=_memory_forget,
        destroys=True,
        repeatable=True,
    ),
    Tool(
        name="memory_feedback",
        title="Say what helped",
        description="Say whether recalled memories helped; later recalls take it into account.",
        toolset=TOOLSET,
        request=requests.MemoryFeedback,
        answer=answers.FeedbackRecorded,
        run=_memory_feedback,
    ),
    Tool(
        name="memory_projects",
        title="List projects",
        description="List the projects that have memories.",
        toolset=TOOLSET,
        request=requests.ListProjects,
        answer=answers.ProjectsListed,
        run=_memory_projects,
        reads=True,
    ),
    Tool(
        name="memory_status",
        title="Count memories",
        description="Count a project's memories, chunks and relations.",
        toolset=TOOLSET,
        request=requests.MemoryStatusOf,
        answer=answers.MemoryStatusRead,
        run=_memory_status,
        reads=True,
    ),
)

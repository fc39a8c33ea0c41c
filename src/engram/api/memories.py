"""Operations on typed memories, named as in engram-go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from msgspec.structs import asdict

from engram import limits
from engram.api.lean import CHARACTERS_PER_TOKEN_MAX
from engram.api.memory_views import (
    ChunkView,
    DocumentProgress,
    MemoriesListed,
    MemoryFetched,
    MemoryHistoryRead,
    MemoryStatusRead,
    MemoryView,
    ProjectsListed,
    SummarizationView,
    TimelineRead,
    VersionView,
    fetched_text,
    history_text,
    memories_text,
    projects_text,
    status_text,
    timeline_text,
)
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal, QuotaWarning
from engram.model.document import Document
from engram.model.fields import DEFAULT_PROJECT, Between, Length, Offset, Project, Tags, TokenBudget
from engram.model.ids import MemoryId
from engram.model.memory import (
    Feedback,
    Memory,
    MemoryChange,
    MemoryDraft,
    MemoryFilters,
    MemoryOptions,
    MemoryPage,
    MemoryQuery,
    MemoryStatus,
    MemoryType,
    MemoryVersion,
    Relation,
    RelationDraft,
    RelationType,
    Tombstone,
    date_among,
)
from engram.model.recall import READING_TOKENS, MemoryChunk, MemoryFetch, TimelineQuery
from engram.model.request import Request
from engram.model.trash import Undo
from engram.model.value import Value, derived, replace
from engram.text.excerpts import Excerpt, fit
from engram.yielding import offload

if TYPE_CHECKING:
    from engram.service import Service
    from engram.service.memories import StoredMemories

TOOLSET = "memories"
DraftT = TypeVar("DraftT", bound=MemoryOptions | MemoryChange)


class InProject(Request):
    """A request about one project."""

    project: Project = DEFAULT_PROJECT


class BatchedMemory(MemoryDraft):
    """A memory of a batch."""

    project: Annotated[Project | None, "Else that of the batch."] = None  # pyright: ignore[reportIncompatibleVariableOverride] it is given before it is stored


class MemoryBatch(InProject):
    """Memories to store atomically."""

    memories: Annotated[tuple[BatchedMemory, ...], Length(1, limits.MEMORIES_PER_CALL_MAX)]


class FetchMemory(MemoryFetch):
    """A memory to read, by default from the default project."""

    project: Project = DEFAULT_PROJECT


class ListMemories(InProject):
    """Filters and page of a list of memories, newest first."""

    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = 50
    offset: Offset = 0
    memory_type: MemoryType | None = None
    tags: Annotated[Tags, "Any may match."] = ()
    token_budget: TokenBudget = READING_TOKENS


class HistoryOf(InProject):
    """The memory whose history to read."""

    memory_id: MemoryId
    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = limits.MEMORY_PAGE_MAX
    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS


class Timeline(InProject):
    """The moment in the past to look at."""

    as_of: datetime
    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = 20
    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS


class ConnectMemories(RelationDraft):
    """A relation, and the project of the first memory."""

    project: Project = DEFAULT_PROJECT


class CorrectMemory(MemoryChange):
    """Corrections to one memory."""

    memory_id: MemoryId
    project: Project = DEFAULT_PROJECT
    token_budget: TokenBudget | None = READING_TOKENS
    """None means unlimited."""


class ForgetMemory(InProject):
    """The memory to forget, and why."""

    memory_id: MemoryId
    reason: str | None = None


class RestoreMemory(InProject):
    """The forgotten memory to restore."""

    memory_id: MemoryId


class FeedbackInProject(Feedback):
    """A rating of memories of one project."""

    project: Project = DEFAULT_PROJECT


class ListProjects(Request):
    """Selects projects."""

    project: Annotated[Project | None, "Only this one."] = None


class PurgeMemory(Request):
    """The memory to purge."""

    memory_id: MemoryId
    force: Annotated[bool, "Remove it even if it is immutable."] = False
    undo: Undo = False


class RelationsOf(Request):
    """Selects relations up to some hops away from a memory."""

    memory_id: MemoryId
    hops: Annotated[int, Between(1, limits.RELATION_HOPS_MAX)] = 1


class Degraded(Value):
    """Whether a text lacks vectors so far, and why."""

    embed: bool
    reason: str | None


class MemoryStored(Value, omit_defaults=True):
    """Result of storing a memory."""

    id: MemoryId
    status: Literal["stored"]
    degraded: Degraded
    quota_warning: QuotaWarning = None


class MemoriesStored(Value, omit_defaults=True):
    """Result of storing memories, in the order of the request."""

    ids: tuple[MemoryId, ...]
    count: int
    degraded: Degraded
    quota_warning: QuotaWarning = None


class MemoryReceipt(Value):
    """The answer to a correction with a key that lacks the scope `read`."""

    id: MemoryId
    version: int
    updated_at: datetime


class MemoryCorrected(MemoryView):
    """The corrected memory; for a key without the scope `read`, the fields of the receipt alone."""

    always_present: ClassVar = MemoryReceipt.__struct_fields__


class MemoriesConnected(Value):
    """A relation, new or already stored."""

    status: Literal["connected"]
    id: str
    source_id: MemoryId
    target_id: MemoryId
    relation_type: RelationType
    strength: float


class RelationsListed(Value):
    """Relations around a memory, nearest first."""

    relations: tuple[Relation, ...]
    count: int


class MemoryForgotten(Value):
    """A forgotten memory."""

    memory_id: MemoryId
    valid_to: datetime | None
    deleted: Literal[True] = True


class MemoryRestored(Value):
    """A memory that is no longer forgotten."""

    memory_id: MemoryId
    version: int
    valid_to: datetime | None


class FeedbackRecorded(Value):
    """How many memories were rated."""

    status: Literal["recorded"]
    count: int


async def store(service: Service, principal: Principal, request: MemoryDraft) -> MemoryStored:
    kept = await service.memories.store(principal, dated(request))
    return MemoryStored(
        id=kept.memories[0].id,
        status="stored",
        degraded=_degraded(kept),
        quota_warning=kept.quota_warning,
    )


async def store_batch(
    service: Service, principal: Principal, request: MemoryBatch
) -> MemoriesStored:
    drafts = [
        replace(dated(each), project=each.project or request.project) for each in request.memories
    ]
    kept = await service.memories.store_batch(principal, drafts)
    ids = tuple(each.id for each in kept.memories)
    return MemoriesStored(
        ids=ids, count=len(ids), degraded=_degraded(kept), quota_warning=kept.quota_warning
    )


def dated(request: DraftT) -> DraftT:
    """Return the request with `valid_from` taken from a date tag, if it has one."""
    if request.valid_from is not None or (day := date_among(request.tags or ())) is None:
        return request
    return replace(request, valid_from=day)


def _degraded(kept: StoredMemories) -> Degraded:
    return Degraded(embed=kept.vector_gap is not None, reason=kept.vector_gap)


async def fetch(service: Service, principal: Principal, request: FetchMemory) -> MemoryFetched:
    fetched = await service.memories.fetch(principal, request)
    memory, document = fetched.memory, fetched.document
    return MemoryFetched(
        id=memory.id,
        memory_type=memory.memory_type,
        project=memory.project,
        summary=fetched.summary,
        chunk_count=fetched.chunk_count,
        truncated=fetched.is_truncated,
        forgotten=None if memory.is_searched else True,
        invalidation_reason=memory.reason,
        content=fetched.content,
        chunks=None if fetched.chunks is None else tuple(map(_chunk, fetched.chunks)),
        document=None if document is None else document_progress(document),
        memory=memory,
        from_character=request.from_character,
    )


def _chunk(chunk: MemoryChunk) -> ChunkView:
    return derived(ChunkView, chunk, chunk_index=chunk.index, chunk_text=chunk.text)


def document_progress(document: Document) -> DocumentProgress:
    """Return the indexing progress of a document."""
    ids = {"id": document.memory_id, "document_id": document.id}
    return derived(DocumentProgress, document, **ids, progress=_progress(document))


def _progress(document: Document) -> float:
    if document.state == "indexed":
        return 1.0
    if not document.text_bytes:
        return 0.0
    # Rounding must not show 1.0 before indexing has finished.
    return min(round(document.text_bytes_indexed / document.text_bytes, 4), 0.9999)


async def fetch_whole(service: Service, principal: Principal, request: FetchMemory) -> MemoryView:
    fetched = await service.memories.fetch(principal, MemoryFetch(id=request.id))
    return memory_view(fetched.memory)


def memory_view(memory: Memory, shown: Excerpt | None = None) -> MemoryView:
    """Return a memory with all or an excerpt of its content."""
    view = MemoryView(**asdict(memory))
    return view if shown is None else replace(view, content=shown.text, truncated=shown.is_cut)


async def memory_views(memories: Sequence[Memory], *, token_budget: int) -> tuple[MemoryView, ...]:
    """Return memories whose contents together fit a token budget; truncated ones are marked."""
    shown = await _fitted([memory.content for memory in memories], token_budget)
    return tuple(map(memory_view, memories, shown))


async def _fitted(texts: Sequence[str], token_budget: int) -> list[Excerpt]:
    """Return texts cut to a token budget, long ones on a thread."""
    characters = min(sum(map(len, texts)), token_budget * CHARACTERS_PER_TOKEN_MAX)
    return await offload(partial(fit, texts, token_budget=token_budget), characters=characters)


async def list_memories(
    service: Service, principal: Principal, request: ListMemories
) -> MemoriesListed:
    filters = MemoryFilters(
        projects=(request.project,),
        memory_types=() if request.memory_type is None else (request.memory_type,),
        tags=request.tags,
    )
    query = MemoryQuery(limit=request.limit, offset=request.offset, filters=filters)
    page = await service.memories.list(principal, query)
    return await memories_listed(page, token_budget=request.token_budget)


async def memories_listed(page: MemoryPage, *, token_budget: int) -> MemoriesListed:
    """Return a page of memories within a token budget."""
    return MemoriesListed(
        memories=await memory_views(page.memories, token_budget=token_budget),
        count=len(page.memories),
        total=page.total,
        next_offset=page.next_offset,
    )


async def history(service: Service, principal: Principal, request: HistoryOf) -> MemoryHistoryRead:
    found = await service.memories.history(principal, request.memory_id, project=request.project)
    end, total = request.offset + request.limit, len(found.versions)
    page = found.versions[request.offset : end]
    shown = await _fitted([version.memory.content for version in page], request.token_budget)
    return MemoryHistoryRead(
        memory_id=found.memory.id,
        versions=tuple(map(_version, page, shown)),
        count=len(page),
        next_offset=end if end < total else None,
        total=total,
    )


def _version(version: MemoryVersion, shown: Excerpt) -> VersionView:
    memory = version.memory
    return derived(
        VersionView,
        memory,
        content=shown.text,
        system_from=memory.updated_at,
        system_to=version.ended_at,
        change_type=version.change,
        actor=version.actor,
        truncated=shown.is_cut,
    )


async def timeline(service: Service, principal: Principal, request: Timeline) -> TimelineRead:
    query = derived(TimelineQuery, request, projects=(request.project,))
    memories = await service.memories.timeline(principal, query)
    return TimelineRead(
        as_of=request.as_of,
        memories=await memory_views(memories, token_budget=request.token_budget),
        count=len(memories),
        next_offset=request.offset + request.limit if len(memories) == request.limit else None,
    )


async def connect(
    service: Service, principal: Principal, request: ConnectMemories
) -> MemoriesConnected:
    relation = await service.memories.connect(principal, request, project=request.project)
    fields = asdict(relation)
    del fields["created_at"]
    return MemoriesConnected(status="connected", **fields)


async def relations(
    service: Service, principal: Principal, request: RelationsOf
) -> RelationsListed:
    found = await service.memories.relations(principal, request.memory_id, hops=request.hops)
    return RelationsListed(relations=found, count=len(found))


async def correct(
    service: Service, principal: Principal, request: CorrectMemory
) -> MemoryView | MemoryReceipt:
    memory = await service.memories.correct(
        principal, request.memory_id, dated(request), project=request.project
    )
    if not principal.allows("read"):
        return derived(MemoryReceipt, memory)
    if request.token_budget is None:
        return memory_view(memory)
    (view,) = await memory_views([memory], token_budget=request.token_budget)
    return view


async def forget(service: Service, principal: Principal, request: ForgetMemory) -> MemoryForgotten:
    memory = await service.memories.forget(
        principal, request.memory_id, reason=request.reason, project=request.project
    )
    return MemoryForgotten(memory_id=memory.id, valid_to=memory.valid_to)


async def restore(service: Service, principal: Principal, request: RestoreMemory) -> MemoryRestored:
    memory = await service.memories.restore(principal, request.memory_id, project=request.project)
    return MemoryRestored(memory_id=memory.id, version=memory.version, valid_to=memory.valid_to)


async def feedback(
    service: Service, principal: Principal, request: FeedbackInProject
) -> FeedbackRecorded:
    once = replace(request, memory_ids=tuple(dict.fromkeys(request.memory_ids)))
    count = await service.memories.feedback(principal, once, project=request.project)
    return FeedbackRecorded(status="recorded", count=count)


async def projects(service: Service, principal: Principal, request: ListProjects) -> ProjectsListed:
    sizes = await service.memories.projects(principal, project=request.project)
    return ProjectsListed(projects=sizes, count=len(sizes))


async def status(service: Service, principal: Principal, request: InProject) -> MemoryStatusRead:
    found: MemoryStatus = await service.memories.status(principal, request.project)
    waiting = found.memories - found.summaries
    return MemoryStatusRead(
        total_memories=found.memories,
        forgotten=found.forgotten,
        total_chunks=found.chunks,
        chunks_total=found.chunks,
        chunks_embedded=found.chunks - found.chunks_pending,
        chunks_pending_embedding=found.chunks_pending,
        total_relationships=found.relations,
        by_type={str(kind): count for kind, count in found.by_type.items()},
        by_importance={str(level): count for level, count in found.by_importance.items()},
        oldest=found.oldest,
        newest=found.newest,
        pending_summarization=waiting,
        summarization=SummarizationView(pending=waiting, completed=found.summaries),
    )


ANYWHERE: Mapping[str, Any] = {"project": None}
"""A path identifies a memory by its id alone, in whatever project it is."""


STORING: tuple[KeyOperation, ...] = (
    Operation(
        name="memory_store",
        description="Keep a decision, pattern, error, preference or fact, verbatim.",
        request=MemoryDraft,
        answer=MemoryStored,
        run=store,
        scopes=("write",),
        toolset=TOOLSET,
        body_bytes_max=limits.MEMORY_BODY_BYTES_MAX,
        tool=Tool(title="Keep a memory"),
        routes=(Route(method="POST", path="/api/v1/memories", status=201),),
        command=Command(words=("memories", "store"), arguments=("content",), stdin="content"),
    ),
    Operation(
        name="memory_store_batch",
        description="Keep up to 100 memories, all or none.",
        request=MemoryBatch,
        answer=MemoriesStored,
        run=store_batch,
        scopes=("write",),
        toolset=TOOLSET,
        body_bytes_max=limits.BODY_BYTES_MAX,
        tool=Tool(title="Keep memories"),
        routes=(Route(method="POST", path="/api/v1/memories/batch", status=201),),
    ),
)

OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="memory_fetch",
        description="Read a memory: a summary, all of it, or chunks of it.",
        request=FetchMemory,
        answer=MemoryFetched,
        run=fetch,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Read a memory", hints=("reads",), lean=fetched_text),
        routes=(
            Route(
                method="GET",
                path="/api/v1/memories/{memory_id:memory_id}",
                aliases={"id": "memory_id"},
                fixed={
                    **ANYWHERE,
                    "detail": "full",
                    "chunk_ids": (),
                    "token_budget": READING_TOKENS,
                    "from_character": 0,
                },
                answer=MemoryView,
                run=fetch_whole,
                description="Read a memory, verbatim and whole; a forgotten one says that it is.",
            ),
        ),
        command=Command(
            words=("memories", "show"),
            arguments=("id",),
            hidden=("detail", "chunk_ids", "token_budget", "from_character"),
            fixed=ANYWHERE,
            answer=MemoryView,
            run=fetch_whole,
        ),
    ),
    Operation(
        name="memory_list",
        description="List memories, newest first.",
        request=ListMemories,
        answer=MemoriesListed,
        run=list_memories,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="List memories", hints=("reads",), lean=memories_text),
        routes=(Route(method="GET", path="/api/v1/memories"),),
        command=Command(words=("memories", "list")),
    ),
    Operation(
        name="memory_history",
        description="Read what a memory said before each change, oldest first.",
        request=HistoryOf,
        answer=MemoryHistoryRead,
        run=history,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Read a memory's history", hints=("reads",), lean=history_text),
        routes=(
            Route(
                method="GET", path="/api/v1/memories/{memory_id:memory_id}/history", fixed=ANYWHERE
            ),
        ),
        command=Command(words=("memories", "history"), arguments=("memory_id",), fixed=ANYWHERE),
    ),
    Operation(
        name="memory_timeline",
        description="Read what was known and held at a moment of the past.",
        request=Timeline,
        answer=TimelineRead,
        run=timeline,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Look back", hints=("reads",), lean=timeline_text),
        routes=(Route(method="GET", path="/api/v1/memories/timeline"),),
    ),
    Operation(
        name="memory_connect",
        description="Relate a memory to another: source supersedes target, and so on.",
        request=ConnectMemories,
        answer=MemoriesConnected,
        run=connect,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Relate memories", hints=("repeatable",)),
        routes=(
            Route(
                method="POST",
                path="/api/v1/memories/{memory_id:memory_id}/relations",
                aliases={"source_id": "memory_id"},
                status=201,
                fixed=ANYWHERE,
            ),
        ),
        command=Command(
            words=("memories", "connect"), arguments=("source_id", "target_id"), fixed=ANYWHERE
        ),
    ),
    Operation(
        name="memory_correct",
        description="Change a memory; its history keeps what it said. What is left out stays.",
        request=CorrectMemory,
        answer=MemoryCorrected,
        run=correct,
        scopes=("write",),
        toolset=TOOLSET,
        body_bytes_max=limits.MEMORY_BODY_BYTES_MAX,
        tool=Tool(title="Correct a memory"),
        routes=(
            Route(
                method="PATCH",
                path="/api/v1/memories/{memory_id:memory_id}",
                fixed={**ANYWHERE, "token_budget": None},
            ),
        ),
        command=Command(
            words=("memories", "correct"),
            arguments=("memory_id",),
            fixed={**ANYWHERE, "token_budget": None},
            removable=("tags",),
            help={"tags": "Its tags from now on."},
        ),
    ),
    Operation(
        name="memory_forget",
        description="End a memory: it is recalled no more, and stays in its history.",
        request=ForgetMemory,
        answer=MemoryForgotten,
        run=forget,
        scopes=("delete",),
        toolset=TOOLSET,
        tool=Tool(title="Forget a memory", hints=("destroys", "repeatable")),
        routes=(
            Route(
                method="POST", path="/api/v1/memories/{memory_id:memory_id}/forget", fixed=ANYWHERE
            ),
        ),
        command=Command(words=("memories", "forget"), arguments=("memory_id",), fixed=ANYWHERE),
    ),
    Operation(
        name="memory_restore",
        description="Undo memory_forget: the memory is valid and recalled again.",
        request=RestoreMemory,
        answer=MemoryRestored,
        run=restore,
        scopes=("write", "delete"),
        toolset=TOOLSET,
        tool=Tool(title="Restore a forgotten memory", hints=("repeatable",)),
        routes=(
            Route(
                method="POST", path="/api/v1/memories/{memory_id:memory_id}/restore", fixed=ANYWHERE
            ),
        ),
        command=Command(words=("memories", "restore"), arguments=("memory_id",), fixed=ANYWHERE),
    ),
    Operation(
        name="memory_feedback",
        description="Say whether recalled memories helped; later recalls take it into account.",
        request=FeedbackInProject,
        answer=FeedbackRecorded,
        run=feedback,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Say what helped"),
        routes=(Route(method="POST", path="/api/v1/memories/feedback"),),
    ),
    Operation(
        name="memory_projects",
        description="List the projects that have memories.",
        request=ListProjects,
        answer=ProjectsListed,
        run=projects,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="List projects", hints=("reads",), lean=projects_text),
        routes=(Route(method="GET", path="/api/v1/projects", fixed=ANYWHERE),),
    ),
    Operation(
        name="memory_status",
        description="Count a project's memories, chunks and relations.",
        request=InProject,
        answer=MemoryStatusRead,
        run=status,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Count memories", hints=("reads",), lean=status_text),
        routes=(Route(method="GET", path="/api/v1/memories/status"),),
    ),
    Operation(
        name="memory_purge",
        description="Remove a memory with everything derived from it; a tombstone without the text"
        " stays.",
        request=PurgeMemory,
        answer=Tombstone,
        run=lambda service, me, request: service.memories.purge(
            me, request.memory_id, force=request.force, undo=request.undo
        ),
        scopes=("delete",),
        toolset=TOOLSET,
        routes=(Route(method="DELETE", path="/api/v1/memories/{memory_id:memory_id}"),),
        command=Command(
            words=("memories", "remove"),
            arguments=("memory_id",),
            question="Remove the memory {memory_id} for good?",
            is_undoable=True,
        ),
    ),
    Operation(
        name="memory_relations",
        description="List the relations around a memory, nearest first.",
        request=RelationsOf,
        answer=RelationsListed,
        run=relations,
        scopes=("read",),
        toolset=TOOLSET,
        routes=(Route(method="GET", path="/api/v1/memories/{memory_id:memory_id}/relations"),),
    ),
)

"""Maintenance operations on memories, import and export, projects and episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from engram import limits
from engram.api.memories import (
    InProject,
    MemoriesListed,
    memories_listed,
    memory_views,
)
from engram.api.memory_views import (
    EpisodeRecalled,
    EpisodesListed,
    EpisodeView,
    MemoriesVerified,
    consolidated_text,
    dump_text,
    episode_text,
    episodes_text,
    verified_text,
)
from engram.api.operation import KeyOperation, Operation, Route, Tool
from engram.model.access import Principal
from engram.model.fields import Between, Length, Offset, Project, TokenBudget
from engram.model.ids import EpisodeId, MemoryId
from engram.model.maintenance import (
    Consolidated,
    ConsolidationRequest,
    Exported,
    Imported,
    ReembeddingProgress,
    Summarized,
    Verified,
)
from engram.model.memory import Episode
from engram.model.recall import READING_TOKENS
from engram.model.request import Request
from engram.model.value import Value, derived

if TYPE_CHECKING:
    from engram.service import Service

TOOLSET = "maintenance"
EPISODES = "memories"
"""The heading under which episodes are documented."""

EXPORT_PATH = "./memory-export"
IDS_SHOWN = 100
"""Ids listed in an answer, which also has their count."""

DataPath = Annotated[str, Length(1), "Relative to your directory on the server."]
AnyProject = Annotated[Project | None, "All, if left out."]


class MemoryToSummarize(InProject):
    """Names one memory."""

    memory_id: MemoryId


class ConsolidateMemories(ConsolidationRequest):
    """Selects near-duplicates to merge, or merges to undo."""

    undo: Annotated[
        tuple[MemoryId, ...],
        Length(0, limits.MEMORIES_PER_CALL_MAX),
        "Bring these merged memories back instead.",
    ] = ()


class VerifyMemories(Request):
    """The project whose memories to verify."""

    project: AnyProject = None


class MigrateEmbedder(Request):
    """The embedding model to move to."""

    new_model: Annotated[str, "The model that the server is set to."]
    dry_run: bool = False
    confirm: Annotated[bool, "Needed from 1,000 texts on."] = False
    force: Annotated[bool, "The same as confirm."] = False


class ExportMemories(Request):
    """The project to export, and the target directory."""

    output_path: DataPath = EXPORT_PATH
    project: AnyProject = None


class ImportFile(InProject):
    """The file or directory to import."""

    path: DataPath


class DumpMemories(InProject):
    """Selects a page of memories to read in full."""

    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS


class DeleteProject(Request):
    """The project to delete."""

    project: Project
    confirm: Annotated[str, "The project's name again."]


class EpisodeDraft(InProject):
    """An episode to start."""

    description: str = ""


class EpisodeEnd(InProject):
    """The episode to end, and its summary."""

    episode_id: EpisodeId
    summary: str | None = None


class EpisodeQuery(InProject):
    """Selects episodes of a project."""

    limit: Annotated[int, Between(1, limits.EPISODE_PAGE_MAX)] = 20
    offset: Offset = 0


class EpisodeRecall(InProject):
    """Selects memories of an episode."""

    episode_id: EpisodeId
    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = 50
    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS


class MemoriesImported(Value):
    """Result of an import; long lists are truncated."""

    files: int
    stored: int
    ids: tuple[MemoryId, ...]
    duplicates: int
    purged: int
    relations: int
    episodes: int
    skipped: tuple[str, ...]
    truncated: bool


class ProjectDeleted(Value):
    """Result of deleting a project."""

    project: str
    memories: int
    deleted: Literal[True] = True


async def consolidate(
    service: Service, principal: Principal, request: ConsolidateMemories
) -> Consolidated:
    consolidation = service.consolidation
    if not request.undo:
        return await consolidation.consolidate(principal, request)
    undone = await consolidation.undo(principal, list(request.undo), project=request.project)
    return Consolidated(
        project=request.project,
        dry_run=False,
        examined=len(undone),
        merges=(),
        kept_apart=0,
        truncated=False,
        degraded=(),
        restored=tuple(each.memory_id for each in undone),
    )


async def verify(
    service: Service, principal: Principal, request: VerifyMemories
) -> MemoriesVerified:
    verified: Verified = await service.projects.verify(principal, request.project)
    corrupt = verified.corrupt
    return derived(
        MemoriesVerified, verified, corrupt=len(corrupt), corrupt_ids=corrupt[:IDS_SHOWN]
    )


async def migrate_embedder(
    service: Service, principal: Principal, request: MigrateEmbedder
) -> ReembeddingProgress:
    return await service.reembedding.switch_embedder(
        principal,
        request.new_model,
        dry_run=request.dry_run,
        confirm=request.confirm or request.force,
    )


async def import_claudemd(
    service: Service, principal: Principal, request: ImportFile
) -> MemoriesImported:
    return memories_imported(
        await service.memory_transfer.import_claudemd(
            principal, request.path, project=request.project
        )
    )


async def ingest(service: Service, principal: Principal, request: ImportFile) -> MemoriesImported:
    return memories_imported(
        await service.memory_transfer.ingest(principal, request.path, project=request.project)
    )


def memories_imported(imported: Imported) -> MemoriesImported:
    """Return the result of an import, with long lists truncated."""
    return derived(
        MemoriesImported,
        imported,
        stored=len(imported.stored),
        ids=imported.stored[:IDS_SHOWN],
        skipped=imported.skipped[:IDS_SHOWN],
        truncated=max(len(imported.stored), len(imported.skipped)) > IDS_SHOWN,
    )


async def dump(service: Service, principal: Principal, request: DumpMemories) -> MemoriesListed:
    page = await service.projects.dump(
        principal,
        project=request.project,
        offset=request.offset,
        token_budget=request.token_budget,
    )
    return await memories_listed(page, token_budget=request.token_budget)


async def delete_project(
    service: Service, principal: Principal, request: DeleteProject
) -> ProjectDeleted:
    removed = await service.projects.delete_project(
        principal, request.project, confirm=request.confirm
    )
    return ProjectDeleted(project=request.project, memories=removed)


async def start_episode(
    service: Service, principal: Principal, request: EpisodeDraft
) -> EpisodeView:
    episode = await service.episodes.start(principal, request.project, request.description)
    return episode_view(episode, quota_warning=await service.account.quota_warning(principal))


async def end_episode(service: Service, principal: Principal, request: EpisodeEnd) -> EpisodeView:
    episode = await service.episodes.end(
        principal, request.episode_id, project=request.project, summary=request.summary
    )
    return episode_view(
        episode,
        is_shown=principal.allows("read"),
        quota_warning=await service.account.quota_warning(principal),
    )


def episode_view(
    episode: Episode, *, is_shown: bool = True, quota_warning: str | None = None
) -> EpisodeView:
    """Return an episode, without its texts unless `is_shown`."""
    hidden = {} if is_shown else {"description": None, "summary": None}
    return derived(
        EpisodeView, episode, episode_id=episode.id, quota_warning=quota_warning, **hidden
    )


async def list_episodes(
    service: Service, principal: Principal, request: EpisodeQuery
) -> EpisodesListed:
    found = await service.episodes.list(
        principal, request.project, limit=request.limit, offset=request.offset
    )
    return EpisodesListed(
        episodes=tuple(map(episode_view, found)),
        count=len(found),
        next_offset=request.offset + request.limit if len(found) == request.limit else None,
    )


async def recall_episode(
    service: Service, principal: Principal, request: EpisodeRecall
) -> EpisodeRecalled:
    episode, page = await service.episodes.recall(
        principal,
        request.episode_id,
        project=request.project,
        limit=request.limit,
        offset=request.offset,
    )
    return EpisodeRecalled(
        episode=episode_view(episode),
        memories=await memory_views(page.memories, token_budget=request.token_budget),
        count=len(page.memories),
        total=page.total,
        next_offset=page.next_offset,
    )


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="memory_summarize",
        description="Give a memory a summary of a sentence or two; its text stays.",
        request=MemoryToSummarize,
        answer=Summarized,
        run=lambda service, me, request: service.summaries.summarize(
            me, request.memory_id, project=request.project
        ),
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Sum up a memory", hints=("repeatable",)),
    ),
    Operation(
        name="memory_consolidate",
        description="Merge memories that say the same: the newer stays, the older is forgotten and"
        " can be brought back with undo.",
        request=ConsolidateMemories,
        answer=Consolidated,
        run=consolidate,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Merge near-duplicates", hints=("repeatable",), lean=consolidated_text),
    ),
    Operation(
        name="memory_verify",
        description="Prove by their hashes that memories are what was stored.",
        request=VerifyMemories,
        answer=MemoriesVerified,
        run=verify,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Prove memories", hints=("reads",), lean=verified_text),
    ),
    Operation(
        name="memory_migrate_embedder",
        description="Embed everything with the server's present model, a while at a time: call"
        " again while status is running. Search serves the old vectors until all are"
        " made.",
        request=MigrateEmbedder,
        answer=ReembeddingProgress,
        run=migrate_embedder,
        scopes=("admin",),
        toolset=TOOLSET,
        tool=Tool(title="Move to another model", hints=("repeatable",)),
    ),
    Operation(
        name="memory_export_all",
        description="Write memories, histories and episodes as Markdown; memory_ingest takes them"
        " back.",
        request=ExportMemories,
        answer=Exported,
        run=lambda service, me, request: service.memory_transfer.export_all(
            me, request.output_path, project=request.project
        ),
        scopes=("read", "write"),
        toolset=TOOLSET,
        tool=Tool(title="Export memories", hints=("repeatable",)),
    ),
    Operation(
        name="memory_import_claudemd",
        description="Keep each section of a Markdown file as a memory; known ones are not repeated.",
        request=ImportFile,
        answer=MemoriesImported,
        run=import_claudemd,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Import CLAUDE.md", hints=("repeatable",)),
    ),
    Operation(
        name="memory_ingest",
        description="Keep each .md or .txt file as a memory, or take back an export.",
        request=ImportFile,
        answer=MemoriesImported,
        run=ingest,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Import files", hints=("repeatable",)),
    ),
    Operation(
        name="memory_dump",
        description="Read a project's memories in full, newest first.",
        request=DumpMemories,
        answer=MemoriesListed,
        run=dump,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Read all memories", hints=("reads",), lean=dump_text),
    ),
    Operation(
        name="memory_delete_project",
        description="Delete a project's memories and episodes for good, when the user asks for it.",
        request=DeleteProject,
        answer=ProjectDeleted,
        run=delete_project,
        scopes=("delete",),
        toolset=TOOLSET,
        tool=Tool(title="Delete a project", hints=("destroys", "repeatable")),
    ),
    Operation(
        name="memory_episode_start",
        description="Begin a stretch of work; store memories with its episode_id.",
        request=EpisodeDraft,
        answer=EpisodeView,
        run=start_episode,
        group=EPISODES,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Begin an episode"),
        routes=(Route(method="POST", path="/api/v1/episodes", status=201),),
    ),
    Operation(
        name="memory_episode_end",
        description="End an episode, with a summary of what came of it.",
        request=EpisodeEnd,
        answer=EpisodeView,
        run=end_episode,
        group=EPISODES,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="End an episode", hints=("repeatable",)),
        routes=(Route(method="POST", path="/api/v1/episodes/{episode_id}/end"),),
    ),
    Operation(
        name="memory_episode_list",
        description="List a project's episodes, the last begun first.",
        request=EpisodeQuery,
        answer=EpisodesListed,
        run=list_episodes,
        group=EPISODES,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="List episodes", hints=("reads",), lean=episodes_text),
        routes=(Route(method="GET", path="/api/v1/episodes"),),
    ),
    Operation(
        name="memory_episode_recall",
        description="Read the memories of an episode, newest first.",
        request=EpisodeRecall,
        answer=EpisodeRecalled,
        run=recall_episode,
        group=EPISODES,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Recall an episode", hints=("reads",), lean=episode_text),
        routes=(Route(method="GET", path="/api/v1/episodes/{episode_id}"),),
    ),
)

"""The tools of the toolset `maintenance`, under the names that engram-go's clients know."""

from __future__ import annotations

from typing import Any

from engram.model.access import Principal
from engram.model.ids import EpisodeId, MemoryId
from engram.service import Service
from engram.transport import answers, requests
from engram.transport.mcp.tools.tool import Answer, Tool, warned

TOOLSET = "maintenance"


async def _memory_summarize(
    service: Service, principal: Principal, request: requests.SummarizeMemory
) -> Answer:
    made = await service.maintenance.summaries.summarize(
        principal, MemoryId(request.memory_id), project=request.project
    )
    return answers.memory_summarized(made)


async def _memory_consolidate(
    service: Service, principal: Principal, request: requests.ConsolidateMemories
) -> Answer:
    consolidation = service.maintenance.consolidation
    if request.undo:
        undone = await consolidation.undo(
            principal, list(map(MemoryId, request.undo)), project=request.project
        )
        return answers.memories_unmerged(undone, project=request.project)
    return answers.memories_consolidated(
        await consolidation.consolidate(principal, request.to_model())
    )


async def _memory_verify(
    service: Service, principal: Principal, request: requests.VerifyMemories
) -> Answer:
    verified = await service.maintenance.care.verify(principal, request.project)
    return answers.memories_verified(verified)


async def _memory_migrate_embedder(
    service: Service, principal: Principal, request: requests.MigrateEmbedder
) -> Answer:
    migrated = await service.maintenance.migrating.migrate(
        principal,
        request.new_model,
        dry_run=request.dry_run,
        confirm=request.confirm or request.force,
    )
    return answers.embedder_migrated(migrated)


async def _memory_export_all(
    service: Service, principal: Principal, request: requests.ExportMemories
) -> Answer:
    exported = await service.maintenance.exporting.export_all(
        principal, request.output_path, project=request.project
    )
    return answers.memories_exported(exported)


async def _memory_import_claudemd(
    service: Service, principal: Principal, request: requests.ImportFile
) -> Answer:
    imported = await service.maintenance.importing.import_claudemd(
        principal, request.path, project=request.project
    )
    return answers.memories_imported(imported)


async def _memory_ingest(
    service: Service, principal: Principal, request: requests.ImportFile
) -> Answer:
    imported = await service.maintenance.importing.ingest(
        principal, request.path, project=request.project
    )
    return answers.memories_imported(imported)


async def _memory_dump(
    service: Service, principal: Principal, request: requests.DumpMemories
) -> Answer:
    page = await service.maintenance.care.dump(
        principal,
        project=request.project,
        offset=request.offset,
        token_budget=request.token_budget,
    )
    return answers.memories_listed(page, token_budget=request.token_budget)


async def _memory_delete_project(
    service: Service, principal: Principal, request: requests.DeleteProject
) -> Answer:
    removed = await service.maintenance.care.delete_project(
        principal, request.project, confirm=request.confirm
    )
    return answers.project_deleted(request.project, removed)


async def _memory_episode_start(
    service: Service, principal: Principal, request: requests.StartEpisode
) -> Answer:
    episode = await service.maintenance.episodes.start(
        principal, request.project, request.description
    )
    return warned(answers.episode_view(episode), await service.account.quota_warning(principal))


async def _memory_episode_end(
    service: Service, principal: Principal, request: requests.EndEpisode
) -> Answer:
    episode = await service.maintenance.episodes.end(
        principal,
        EpisodeId(request.episode_id),
        project=request.project,
        summary=request.summary,
    )
    view = answers.episode_view(episode, is_shown=principal.allows("read"))
    return warned(view, await service.account.quota_warning(principal))


async def _memory_episode_list(
    service: Service, principal: Principal, request: requests.ListEpisodes
) -> Answer:
    episodes = await service.maintenance.episodes.list(
        principal, request.project, limit=request.limit
    )
    return answers.episodes_listed(episodes)


async def _memory_episode_recall(
    service: Service, principal: Principal, request: requests.RecallEpisode
) -> Answer:
    episode, page = await service.maintenance.episodes.recall(
        principal,
        EpisodeId(request.episode_id),
        project=request.project,
        limit=request.limit,
        offset=request.offset,
    )
    return answers.episode_recalled(episode, page, token_budget=request.token_budget)


MAINTENANCE_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        name="memory_summarize",
        title="Sum up a memory",
        description="Give a memory a summary of a sentence or two; its text stays.",
        toolset=TOOLSET,
        request=requests.SummarizeMemory,
        answer=answers.MemorySummarized,
        run=_memory_summarize,
        repeatable=True,
    ),
    Tool(
        name="memory_consolidate",
        title="Merge near-duplicates",
        description=(
            "Merge memories that say the same: the newer stays, the older is forgotten and can be"
            " brought back with undo."
        ),
        toolset=TOOLSET,
        request=requests.ConsolidateMemories,
        answer=answers.MemoriesConsolidated,
        run=_memory_consolidate,
        repeatable=True,
    ),
    Tool(
        name="memory_verify",
        title="Prove memories",
        description="Prove by their hashes that memories are what was stored.",
        toolset=TOOLSET,
        request=requests.VerifyMemories,
        answer=answers.MemoriesVerified,
        run=_memory_verify,
        reads=True,
    ),
    Tool(
        name="memory_migrate_embedder",
        title="Move to another model",
        description=(
            "Embed everything with the server's present model, a while at a time: call again while"
            " status is running. Search serves the old vectors until all are made."
        ),
        toolset=TOOLSET,
        request=requests.MigrateEmbedder,
        answer=answers.EmbedderMigrated,
        run=_memory_migrate_embedder,
        repeatable=True,
    ),
    Tool(
        name="memory_export_all",
        title="Export memories",
        description="Write memories, histories and episodes as Markdown; memory_ingest takes them back.",
        toolset=TOOLSET,
        request=requests.ExportMemories,
        answer=answers.MemoriesExported,
        run=_memory_export_all,
        repeatable=True,
    ),
    Tool(
        name="memory_import_claudemd",
        title="Import CLAUDE.md",
        description="Keep each section of a Markdown file as a memory; known ones are not repeated.",
        toolset=TOOLSET,
        request=requests.ImportFile,
        answer=answers.MemoriesImported,
        run=_memory_import_claudemd,
        repeatable=True,
    ),
    Tool(
        name="memory_ingest",
        title="Import files",
        description="Keep each .md or .txt file as a memory, or take back an export.",
        toolset=TOOLSET,
        request=requests.ImportFile,
        answer=answers.MemoriesImported,
        run=_memory_ingest,
        repeatable=True,
    ),
    Tool(
        name="memory_dump",
        title="Read all memories",
        description="Read a project's memories in full, newest first: go on at next_offset.",
        toolset=TOOLSET,
        request=requests.DumpMemories,
        answer=answers.MemoriesListed,
        run=_memory_dump,
        reads=True,
    ),
    Tool(
        name="memory_delete_project",
        title="Delete a project",
        description="Delete a project's memories and episodes for good, when the user asks for it.",
        toolset=TOOLSET,
        request=requests.DeleteProject,
        answer=answers.ProjectDeleted,
        run=_memory_delete_project,
        destroys=True,
        repeatable=True,
    ),
    Tool(
        name="memory_episode_start",
        title="Begin an episode",
        description="Begin a stretch of work; store memories with its episode_id.",
        toolset=TOOLSET,
        request=requests.StartEpisode,
        answer=answers.EpisodeView,
        run=_memory_episode_start,
    ),
    Tool(
        name="memory_episode_end",
        title="End an episode",
        description="End an episode, with a summary of what came of it.",
        toolset=TOOLSET,
        request=requests.EndEpisode,
        answer=answers.EpisodeView,
        run=_memory_episode_end,
        repeatable=True,
    ),
    Tool(
        name="memory_episode_list",
        title="List episodes",
        description="List a project's episodes, the last begun first.",
        toolset=TOOLSET,
        request=requests.ListEpisodes,
        answer=answers.EpisodesListed,
        run=_memory_episode_list,
        reads=True,
    ),
    Tool(
        name="memory_episode_recall",
        title="Recall an episode",
        description="Read the memories of an episode, newest first.",
        toolset=TOOLSET,
        request=requests.RecallEpisode,
        answer=answers.EpisodeRecalled,
        run=_memory_episode_recall,
        reads=True,
    ),
)

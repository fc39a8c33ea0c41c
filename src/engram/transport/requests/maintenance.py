"""What callers may ask of the care of memories, in the names that engram-go's clients know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.model.care import ConsolidationRequest
from engram.model.memory_reading import READING_TOKENS
from engram.transport.requests.fields import WHOLE, Offset, Project, TokenBudget
from engram.transport.requests.memories import InProject
from engram.transport.requests.request import Request

EXPORT_PATH = "./memory-export"

DataPath = Annotated[
    str, Field(min_length=1, description="Relative to your directory on the server.")
]
AnyProject = Annotated[Project | None, Field(description="All, if left out.")]


class SummarizeMemory(InProject):
    memory_id: str


class ConsolidateMemories(InProject):
    dry_run: Annotated[bool, Field(description="Only say what would be merged.")] = False
    limit: Annotated[
        int, Field(ge=1, le=limits.CONSOLIDATE_MERGES_MAX, description="Merges."), WHOLE
    ] = limits.CONSOLIDATE_MERGES_MAX
    undo: Annotated[
        list[str],
        Field(
            max_length=limits.MEMORIES_PER_CALL_MAX,
            description="Bring these merged memories back instead.",
        ),
    ] = []

    def to_model(self) -> ConsolidationRequest:
        return ConsolidationRequest(project=self.project, dry_run=self.dry_run, limit=self.limit)


class VerifyMemories(Request):
    project: AnyProject = None


class MigrateEmbedder(Request):
    new_model: Annotated[str, Field(description="The model that the server is set to.")]
    dry_run: bool = False
    confirm: Annotated[bool, Field(description="Needed from 1,000 texts on.")] = False
    force: Annotated[bool, Field(description="The same as confirm.")] = False


class ExportMemories(Request):
    output_path: DataPath = EXPORT_PATH
    project: AnyProject = None


class ImportFile(InProject):
    path: DataPath


class DumpMemories(InProject):
    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS


class DeleteProject(Request):
    project: Project
    confirm: Annotated[str, Field(description="The project's name again.")]


class StartEpisode(InProject):
    description: str = ""


class EndEpisode(InProject):
    episode_id: str
    summary: str | None = None


class ListEpisodes(InProject):
    limit: Annotated[int, Field(ge=1, le=limits.EPISODE_PAGE_MAX), WHOLE] = 20


class RecallEpisode(InProject):
    episode_id: str
    limit: Annotated[int, Field(ge=1, le=limits.MEMORY_PAGE_MAX), WHOLE] = 50
    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS

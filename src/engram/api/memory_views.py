"""Answers with memories and episodes, and the lean texts that are written from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Literal

from engram.api.lean import CUT_MARK, LeanText, add_whole, date_of, list_text, page_note
from engram.model.access import QuotaWarning
from engram.model.document import DocumentState
from engram.model.fields import DEFAULT_PROJECT
from engram.model.ids import ChunkId, DocumentId, EpisodeId, MemoryId
from engram.model.maintenance import Consolidated
from engram.model.memory import (
    IMPORTANCE_DEFAULT,
    IMPORTANCE_NAMES,
    Category,
    Change,
    Memory,
    MemoryType,
    ProjectSize,
)
from engram.model.value import INTERNAL, Score, Value, computed
from engram.text.excerpts import brief
from engram.text.quoting import label, quote_after


class MemoryView(Memory, omit_defaults=True):
    """A memory; its content may be truncated to a token budget."""

    truncated: bool = False

    @computed
    def forgotten(self) -> Literal[True] | None:
        """Return True if it is forgotten; None leaves the field out."""
        return None if self.is_searched else True

    @computed
    def invalidation_reason(self) -> str | None:
        """Return why it was forgotten."""
        return self.reason


class ChunkView(Value, omit_defaults=True):
    """A range of a memory's text."""

    id: ChunkId
    chunk_index: int
    start: int
    end: int
    chunk_text: str | None = None


class DocumentProgress(Value, omit_defaults=True):
    """How much of a document is indexed."""

    id: MemoryId
    document_id: DocumentId
    state: DocumentState
    text_bytes: int
    text_bytes_indexed: int
    progress: Score
    """The share of the text that is indexed, 0 to 1."""
    problem: str | None = None


class MemoryFetched(Value, omit_defaults=True):
    """A memory with the requested level of detail."""

    id: MemoryId
    memory_type: MemoryType
    project: str
    summary: str
    chunk_count: int
    truncated: bool
    forgotten: Literal[True] | None = None
    invalidation_reason: str | None = None
    content: str | None = None
    chunks: tuple[ChunkView, ...] | None = None
    document: DocumentProgress | None = None
    memory: Annotated[Memory, INTERNAL]
    from_character: Annotated[int, INTERNAL] = 0
    """Where the content begins."""


class MemoriesListed(Value):
    """One page of memories and the total count."""

    memories: tuple[MemoryView, ...]
    count: int
    total: int
    next_offset: int | None


class VersionView(Value, omit_defaults=True):
    """An earlier version of a memory."""

    version: int
    content: str
    memory_type: MemoryType
    category: Category
    tags: tuple[str, ...]
    importance: int
    content_hash: str
    system_from: datetime
    system_to: datetime
    change_type: Change
    actor: str
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    truncated: bool = False


class MemoryHistoryRead(Value, omit_defaults=True):
    """The earlier versions of a memory, oldest first."""

    memory_id: MemoryId
    versions: tuple[VersionView, ...]
    count: int
    next_offset: int | None = None
    total: Annotated[int, INTERNAL] = 0


class TimelineRead(Value, omit_defaults=True):
    """The memories that were known and valid at a moment in the past."""

    as_of: datetime
    memories: tuple[MemoryView, ...]
    count: int
    next_offset: int | None = None
    """Where there may be more: only a full page has it."""


class ProjectsListed(Value):
    """Projects by name."""

    projects: tuple[ProjectSize, ...]
    count: int


class SummarizationView(Value):
    """How many memories have a summary."""

    pending: int
    completed: int


class MemoryStatusRead(Value):
    """Statistics of a project's memories."""

    total_memories: int
    forgotten: int
    total_chunks: int
    chunks_total: int
    chunks_embedded: int
    chunks_pending_embedding: int
    total_relationships: int
    by_type: Mapping[str, int]
    by_importance: Mapping[str, int]
    oldest: datetime | None
    newest: datetime | None
    pending_summarization: int
    summarization: SummarizationView


class MemoriesVerified(Value):
    """Result of verifying the hashes of memories."""

    total: int
    hashed: int
    corrupt: int
    coverage: float
    corrupt_ids: tuple[MemoryId, ...]


class EpisodeView(Value, omit_defaults=True):
    """A stretch of work that memories belong to."""

    episode_id: EpisodeId
    project: str
    started_at: datetime
    ended_at: datetime | None
    memories: int
    description: str | None = None
    """Omitted, as is the summary, for a key without the scope `read`."""
    summary: str | None = None
    quota_warning: QuotaWarning = None


class EpisodesListed(Value, omit_defaults=True):
    """Episodes, the most recently started first."""

    episodes: tuple[EpisodeView, ...]
    count: int
    next_offset: int | None = None
    """Where there may be more: only a full page has it."""


class EpisodeRecalled(Value):
    """An episode and a page of its memories."""

    episode: EpisodeView
    memories: tuple[MemoryView, ...]
    count: int
    total: int
    next_offset: int | None


READ_ALL = f'{CUT_MARK.strip()} is cut: memory_fetch(id, detail="full") reads on'


def memory_head(memory: Memory) -> str:
    """Return the id, date and type of a memory, and what else is not as usual."""
    date = date_of(memory.valid_from or memory.created_at)
    return f"{memory.id} {date} {', '.join([memory.memory_type, *_unusual(memory)])}"


def _unusual(memory: Memory) -> Iterable[str]:
    if memory.importance != IMPORTANCE_DEFAULT:
        yield IMPORTANCE_NAMES[memory.importance]
    if memory.project != DEFAULT_PROJECT:
        yield f"project {label(memory.project)}"
    if memory.valid_to is not None and memory.is_searched:
        yield f"until {date_of(memory.valid_to)}"
    if not memory.is_searched:
        yield "forgotten"


def memory_line(memory: Memory, content: str, *, is_cut: bool = False) -> str:
    """Return a memory in one line, with all or the beginning of its text."""
    line = quote_after(f"{memory_head(memory)}:", content)
    return line.rstrip() + CUT_MARK if is_cut else line


def summary_of(memory: Memory) -> str:
    """Return the summary of a memory, or else its first sentences."""
    return memory.summary or brief(memory.content)


def _view_line(view: MemoryView) -> str:
    return memory_line(view, view.content, is_cut=view.truncated)


def memories_text(page: MemoriesListed, token_budget: int) -> str:
    """Return a page of memories, long ones cut to equal shares of the budget."""
    text = LeanText(token_budget)
    lines = [_view_line(view) for view in page.memories]
    shown = text.add_shared(lines)
    note = page_note(shown, page.count, page.total, page.next_offset, noun="memories")
    return text.finish([note, *_cut_notes(text)])


def dump_text(page: MemoriesListed, token_budget: int) -> str:
    """Return a page of memories in full: as many as fit, and of the first as much as fits."""
    text = LeanText(token_budget)
    shown = add_whole(text, [_view_line(view) for view in page.memories])
    note = page_note(shown, page.count, page.total, page.next_offset, noun="memories")
    return text.finish([note, *_cut_notes(text)])


def timeline_text(answer: TimelineRead, token_budget: int) -> str:
    """Return what was known at a moment, newest first."""
    text = LeanText(token_budget)
    shown = text.add_shared([_view_line(view) for view in answer.memories])
    note = page_note(
        shown, answer.count, None, answer.next_offset, noun=f"memories as of {answer.as_of:%F %TZ}"
    )
    return text.finish([note, *_cut_notes(text)])


def history_text(answer: MemoryHistoryRead, token_budget: int) -> str:
    """Return the earlier versions of a memory, oldest first."""
    if not answer.total:
        return f"{answer.memory_id} was never changed"
    text = LeanText(token_budget)
    shown = text.add_shared([_version_line(version) for version in answer.versions])
    note = page_note(shown, answer.count, answer.total, answer.next_offset, noun="earlier versions")
    cut = [f"{CUT_MARK.strip()} is cut: raise token_budget or lower limit"] if text.is_cut else []
    return text.finish([note, *cut])


def _version_line(version: VersionView) -> str:
    span = f"{date_of(version.system_from)} to {date_of(version.system_to)}"
    ended = "" if version.change_type == "update" else f", {version.change_type}"
    line = quote_after(f"v{version.version} {span}{ended}:", version.content)
    return line + (CUT_MARK if version.truncated else "")


def fetched_text(answer: MemoryFetched, token_budget: int) -> str:
    """Return a memory: its summary, its text or chunks of it, and where to go on."""
    text = LeanText(token_budget)
    head = memory_head(answer.memory)
    if answer.chunks is not None:
        text.add(head)
        return text.finish(_add_chunks(text, answer))
    if answer.content is None:
        text.add_shared([quote_after(f"{head}:", answer.summary)])
        return text.finish(_fetch_notes(answer))
    start = answer.from_character
    named = f"{head}, from character {start}:" if start else f"{head}:"
    content = answer.memory.content[start:]
    if text.add(named, content):
        return text.finish(_document_notes(answer))
    shown = text.add_beginning(named, content)
    if not shown:
        return text.finish([answer.id, "its text does not fit: raise token_budget"])
    where = f'detail="full", from_character={start + shown}'
    return text.finish([f"token_budget reached; go on with {where}"])


def _add_chunks(text: LeanText, answer: MemoryFetched) -> list[str]:
    chunks = answer.chunks or ()
    hidden = 0
    for chunk in chunks:
        named = f"{chunk.id} {chunk.start}-{chunk.end}:"
        is_shown = chunk.chunk_text is not None and not hidden and text.add(named, chunk.chunk_text)
        hidden += not is_shown
    if not hidden:
        return _document_notes(answer)
    following = chunks[len(chunks) - hidden].start
    return [
        f"{hidden} of {len(chunks)} chunks did not fit token_budget",
        f'go on with detail="full", from_character={following}',
    ]


def _fetch_notes(answer: MemoryFetched) -> list[str]:
    content = answer.memory.content
    if answer.summary == content:
        return _document_notes(answer)
    return [f'{len(content):,} characters: detail="full" reads them', *_document_notes(answer)]


def _document_notes(answer: MemoryFetched) -> list[str]:
    document = answer.document
    if document is None:
        return []
    size = f"document of {document.text_bytes:,} bytes, {document.state}"
    return [f"{size}: memory_query_document(memory_id, question) searches all of it"]


def projects_text(answer: ProjectsListed, token_budget: int) -> str:
    """Return projects by name, each with the number of its memories."""
    lines = [f"{label(each.project)}: {each.count}" for each in answer.projects]
    text = LeanText(token_budget)
    shown = add_whole(text, lines)
    note = page_note(shown, len(lines), len(lines), None, noun="projects")
    if 0 < shown < len(lines):
        note = f"{shown} of {len(lines)} projects; token_budget reached: raise it"
    return text.finish([note])


def status_text(answer: MemoryStatusRead, token_budget: int) -> str:
    """Return the counts of a project that are not zero."""
    text = LeanText(token_budget)
    counts = {
        "memories": answer.total_memories,
        "forgotten": answer.forgotten,
        "chunks": answer.total_chunks,
        "chunks that wait for deep vectors": answer.chunks_pending_embedding,
        "relations": answer.total_relationships,
        "without summary": answer.pending_summarization,
    }
    given = [f"{count} {name}" for name, count in counts.items() if count]
    text.add(", ".join(given) or "no memories")
    for counted in (answer.by_type, _named_importance(answer.by_importance)):
        shown = [f"{name} {count}" for name, count in counted.items() if count]
        if shown:
            text.add(", ".join(shown))
    if answer.oldest is not None and answer.newest is not None:
        text.add(f"stored {date_of(answer.oldest)} to {date_of(answer.newest)}")
    return text.finish([])


def verified_text(answer: MemoriesVerified, token_budget: int) -> str:
    """Return how many memories are what was stored, and which are not."""
    if not answer.corrupt:
        return f"all {answer.total} memories are as stored"
    text = LeanText(token_budget)
    shown = add_whole(text, list(answer.corrupt_ids))
    note = f"{answer.corrupt} of {answer.total} memories are not what was stored"
    if shown < answer.corrupt:
        bound = "token_budget" if shown < len(answer.corrupt_ids) else "the list's bound"
        note += f"; {bound} cut the list at {shown}"
    return text.finish([note])


def consolidated_text(answer: Consolidated, token_budget: int) -> str:
    """Return which memories were merged into which, or brought back."""
    if answer.restored is not None:
        lines = [f"{restored} is back" for restored in answer.restored]
        return list_text(lines, len(lines), None, token_budget, noun="merges undone")
    text = LeanText(token_budget)
    shown = add_whole(text, [f"{each.kept_id} <- {each.merged_id}" for each in answer.merges])
    done = "would be merged" if answer.dry_run else "merged"
    notes = [f"{answer.merged} {done} of {answer.examined} memories (kept <- merged)"]
    if shown < answer.merged:
        notes.append(f"token_budget cut the list at {shown}")
    if answer.kept_apart:
        notes.append(f"{answer.kept_apart} left alone: a filter would miss the newer")
    if answer.truncated:
        notes.append("limit reached: call again")
    if answer.degraded:
        notes.append(f"degraded: {', '.join(answer.degraded)}")
    return text.finish(notes)


def episodes_text(answer: EpisodesListed, token_budget: int) -> str:
    """Return episodes, the last begun first."""
    lines = [_episode_line(episode) for episode in answer.episodes]
    text = LeanText(token_budget)
    shown = text.add_shared(lines)
    note = page_note(shown, answer.count, None, answer.next_offset, noun="episodes")
    cut = [f"{CUT_MARK.strip()} is cut: raise token_budget or lower limit"] if text.is_cut else []
    return text.finish([note, *cut])


def episode_text(answer: EpisodeRecalled, token_budget: int) -> str:
    """Return an episode and a page of its memories."""
    text = LeanText(token_budget)
    lines = [_episode_line(answer.episode), *(_view_line(view) for view in answer.memories)]
    shown = max(text.add_shared(lines) - 1, 0)
    note = page_note(shown, answer.count, answer.total, answer.next_offset, noun="memories")
    return text.finish([note, *_cut_notes(text)])


def _episode_line(episode: EpisodeView) -> str:
    ended = f" to {date_of(episode.ended_at)}" if episode.ended_at else ", open"
    head = f"{episode.episode_id} {date_of(episode.started_at)}{ended}, {episode.memories} memories"
    told = [each for each in (episode.description, episode.summary) if each]
    return quote_after(f"{head}:", "\n".join(told)) if told else head


def _named_importance(counts: Mapping[str, int]) -> dict[str, int]:
    return {IMPORTANCE_NAMES[int(level)]: count for level, count in counts.items()}


def _cut_notes(text: LeanText) -> list[str]:
    return [READ_ALL] if text.is_cut else []

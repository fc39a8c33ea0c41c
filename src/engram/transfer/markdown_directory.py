"""Directories of Markdown files: exports are written; exports and other texts are imported.

An export has one file for each memory and each episode, and a marker that names its owner. It has
everything but the bodies of documents; `engram.transfer.markdown` defines the files.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engram import errors, limits
from engram.model.fields import check_label
from engram.model.ids import EpisodeId, MemoryId, OrganizationId
from engram.model.memory import DEFAULT_SOURCE, Episode, MemoryDraft
from engram.storage.organization import OrganizationStore
from engram.transfer import markdown
from engram.transfer.files import SafePath
from engram.transfer.memories import MemoryRecord, read_episodes, read_records

MARKER = "engram-export.json"
"""The file that marks a directory as an export; it has the owner and the counts."""

FOLDERS = ("memories", "episodes")

MARKER_BYTES_MAX = 10_000
_MARKER_BYTES = 400
"""An upper estimate of the size of a marker."""

_FORMAT = 1
_READ_TOGETHER = 50
"""Memories, with their histories, in memory at once."""

ENDINGS = (".md", ".markdown", ".txt")
CLAUDEMD_TAG = "claude-md"

Claim = Callable[[Mapping[SafePath, bytes]], Awaitable[None]]
"""Called with files before they are written; raises QuotaExceededError if they do not fit."""


async def claim_nothing(files: Mapping[SafePath, bytes]) -> None:
    """Let any files be written."""
    del files


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export that is being written."""

    directory: SafePath
    owner: OrganizationId
    claim: Claim = claim_nothing

    async def prepare(self) -> None:
        """Create the directories and the marker, before anything else is written.

        Raises:
            ConflictError: the directory has other files.
        """
        if not await asyncio.to_thread(lambda: is_export(self.directory) or self._is_free()):
            message = f"{self.directory.shown!r} has other files: choose another output_path"
            raise errors.ConflictError(message)
        await self.claim({self.directory.child(MARKER): bytes(_MARKER_BYTES)})
        await asyncio.to_thread(self._make_directories)

    async def write(self, store: OrganizationStore, *, project: str | None) -> dict[str, int]:
        """Write everything, replacing what an earlier export has; return the counts.

        Raises:
            QuotaExceededError: it does not fit the quota any more; no file of it stays.
        """
        counts = Counter[str](memories=0, versions=0, relations=0, episodes=0)
        try:
            await self._write_folder("episodes", _episode_files(store, project, counts))
            await self._write_folder("memories", _memory_files(store, project, counts))
        except errors.QuotaExceededError:
            for name in FOLDERS:
                await asyncio.to_thread(_remove_others, self.directory.child(name), kept=set())
            raise
        await asyncio.to_thread(lambda: self._mark(finished=True, **counts))
        return dict(counts)

    async def _write_folder(self, name: str, batches: AsyncIterator[Mapping[str, bytes]]) -> None:
        folder = self.directory.child(name)
        written = set[str]()
        async for batch in batches:
            files = {folder.child(file): content for file, content in batch.items()}
            await self.claim(files)
            await asyncio.to_thread(_write_files, files)
            written |= batch.keys()
        await asyncio.to_thread(_remove_others, folder, kept=written)

    def _is_free(self) -> bool:
        kind = self.directory.kind()
        return kind is None or (kind == "directory" and not self.directory.children())

    def _make_directories(self) -> None:
        self.directory.make_directory()
        self._mark(finished=False)
        for name in FOLDERS:
            self.directory.child(name).make_directory()

    def _mark(self, *, finished: bool, **counts: int) -> None:
        values = {"engram": _FORMAT, "organization_id": self.owner, "finished": finished, **counts}
        self.directory.child(MARKER).write(json.dumps(values, indent=2).encode() + b"\n")


def is_export(directory: SafePath) -> bool:
    """Return True if a directory is marked as an export."""
    return directory.child(MARKER).kind() == "file"


async def _memory_files(
    store: OrganizationStore, project: str | None, counts: Counter[str]
) -> AsyncIterator[dict[str, bytes]]:
    after: MemoryId | None = None
    while records := await read_records(store, project, after=after, limit=_READ_TOGETHER):
        after = records[-1].memory.id
        first = counts["memories"] + 1
        counts["memories"] += len(records)
        counts["versions"] += sum(len(record.versions) for record in records)
        counts["relations"] += sum(len(record.relations) for record in records)
        yield await asyncio.to_thread(_name_and_write, records, first)


def _name_and_write(records: Sequence[MemoryRecord], first: int) -> dict[str, bytes]:
    """Return the files of records, under names that sort in the order of storing."""
    return {
        f"{number:08}-{record.memory.id}.md": markdown.write_memory(record)
        for number, record in enumerate(records, first)
    }


async def _episode_files(
    store: OrganizationStore, project: str | None, counts: Counter[str]
) -> AsyncIterator[dict[str, bytes]]:
    after: EpisodeId | None = None
    while episodes := await read_episodes(store, project, after=after, limit=_READ_TOGETHER):
        after = episodes[-1].id
        counts["episodes"] += len(episodes)
        yield {f"{episode.id}.md": markdown.write_episode(episode) for episode in episodes}


def _write_files(files: Mapping[SafePath, bytes]) -> None:
    for path, content in files.items():
        path.write(content)


def _remove_others(folder: SafePath, *, kept: set[str]) -> None:
    """Remove the files of an earlier export that are not among those just written."""
    for path in folder.children():
        if path.name not in kept and path.name.endswith(".md"):
            path.remove()


def find_files(path: SafePath) -> list[SafePath]:
    """Return the files to import at a path; those of no export are checked before any is read.

    Raises:
        NotFoundError: there is no such file or directory.
        LimitExceededError: a file is too large for a memory, or there are too many.
        InvalidRequestError: a file is not UTF-8 text.
    """
    match path.kind():
        case "file":
            if not path.name.lower().endswith(ENDINGS):
                raise errors.InvalidRequestError(f"must end in {', '.join(ENDINGS)}", field="path")
            files = [path]
        case "directory" if is_export(path):
            # Episodes first: memories name them.
            return [*path.child("episodes").children(), *path.child("memories").children()]
        case "directory":
            files = list(_walk(path))
        case _:
            raise errors.NotFoundError("file", path.shown)
    for each in files:
        _check_file(each)
    return files


def _walk(directory: SafePath) -> Iterator[SafePath]:
    """Yield the text files below a directory in a fixed order, but for hidden ones and exports.

    An export is imported by its own path, with the episodes before the memories that name them.
    """
    found = 0
    waiting = [directory]
    while waiting:
        path = waiting.pop()
        match path.kind():
            case "directory" if not is_export(path):
                visible = [child for child in path.children() if not child.name.startswith(".")]
                waiting.extend(reversed(visible))
            case "file" if path.name.lower().endswith(ENDINGS):
                found += 1
                if found > limits.IMPORT_FILES_MAX:
                    raise errors.LimitExceededError(
                        "path", limit=limits.IMPORT_FILES_MAX, actual=found, unit="files"
                    )
                yield path
            case _:
                continue


def _check_file(path: SafePath) -> None:
    """Refuse a file that could not be stored, before any is."""
    if path.size() > limits.EXPORT_FILE_BYTES_MAX:
        raise _too_large(path, limits.EXPORT_FILE_BYTES_MAX)
    content = path.read(bytes_max=limits.EXPORT_FILE_BYTES_MAX)
    if markdown.is_exported(content):
        return
    if len(content) > limits.MEMORY_BYTES_MAX:
        raise _too_large(path, limits.MEMORY_BYTES_MAX)
    _decode(content, path)


def _too_large(path: SafePath, limit: int) -> errors.LimitExceededError:
    return errors.LimitExceededError(path.shown, limit=limit, actual=path.size(), unit="bytes")


def read_file(path: SafePath, *, project: str) -> MemoryRecord | Episode | MemoryDraft | None:
    """Parse an exported file, or return any other text as a new memory; None if it is blank.

    Raises:
        InvalidRequestError: it is not UTF-8 text, or an exported one was changed.
    """
    content = path.read(bytes_max=limits.EXPORT_FILE_BYTES_MAX)
    text = None if markdown.is_exported(content) else _decode(content, path)
    if text is not None and not text.strip():
        return None
    try:
        if text is None:
            return markdown.read_exported(content)
        return MemoryDraft(content=text, project=project, source=_source_of(path))
    except errors.InvalidRequestError as exc:
        exc.prefix_field(path.shown)
        raise


def read_sections(path: SafePath, *, project: str) -> list[MemoryDraft]:
    """Return a memory for each section of a Markdown file that has text under its heading.

    Raises:
        NotFoundError: there is no such file.
        InvalidRequestError: it is not UTF-8 text, or a section is too long.
    """
    from engram.text.markdown import split_sections  # noqa: PLC0415 few texts are split

    text = _decode(path.read(bytes_max=limits.CALL_BYTES_MAX), path)
    drafts = list[MemoryDraft]()
    for section in split_sections(text):
        if not text[section.body : section.end].strip():
            continue
        try:
            draft = MemoryDraft(
                content=text[section.start : section.end].strip("\r\n"),
                category="project",
                project=project,
                source=_source_of(path),
                tags=(CLAUDEMD_TAG,),
            )
        except errors.InvalidRequestError as exc:
            exc.prefix_field(f"{path.shown}#{section.heading}")
            raise
        drafts.append(draft)
    return drafts


def _decode(content: bytes, path: SafePath) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise errors.InvalidRequestError("is not UTF-8 text", field=path.shown) from exc


def _source_of(path: SafePath) -> str:
    """Return the path of a file as a source, if it can be one."""
    try:
        check_label("source", path.shown, characters_max=limits.SOURCE_CHARACTERS_MAX)
    except errors.InvalidRequestError:
        return DEFAULT_SOURCE
    return path.shown

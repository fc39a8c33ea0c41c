"""Taking memories in from files: what Engram exported, a CLAUDE.md, or any notes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from engram import limits
from engram.care.exports import ExportPlace
from engram.care.pages import is_page, read_any_page
from engram.care.paths import Place
from engram.errors import InvalidRequestError, LimitExceededError, NotFoundError
from engram.model.access import Principal
from engram.model.care import Imported
from engram.model.checks import check_label
from engram.model.memory import DEFAULT_SOURCE, MemoryDraft, check_project
from engram.service.files import Files
from engram.service.intake import Intake, IntakeFactory

ENDINGS = (".md", ".markdown", ".txt")
CLAUDEMD_TAG = "claude-md"


class Importing:
    """Makes memories of files below the data directory; done twice, nothing is stored twice."""

    def __init__(self, *, files: Files, intakes: IntakeFactory) -> None:
        self._files = files
        self._intakes = intakes

    async def ingest(self, principal: Principal, path: str, *, project: str) -> Imported:
        """Store a text file, a directory of them, or an export with all that belongs to it.

        A text file becomes one memory of the project. A file of an export becomes the memory it
        was, under its id and in its project, unless that is here already.

        Raises:
            NotFoundError: there is no such file or directory.
            LimitExceededError: a file is too large for a memory, or there are too many; it is named
                and nothing is stored.
            InvalidRequestError: a file holds no text, or an exported one was changed.
        """
        principal.require("write")
        return await self.ingest_from(
            principal, await self._files.place(principal, path), project=project
        )

    async def ingest_from(self, principal: Principal, place: Place, *, project: str) -> Imported:
        """Store what is at a place that the principal may use."""
        principal.require("write")
        check_project(project)
        intake = await self._intakes.open(principal)
        for each in await asyncio.to_thread(_find_files, place):
            await _take(intake, each, project=project)
        return await intake.finish()

    async def import_claudemd(self, principal: Principal, path: str, *, project: str) -> Imported:
        """Store each section of a CLAUDE.md, or of any Markdown file, as a memory of the project.

        Raises:
            NotFoundError: there is no such file.
            InvalidRequestError: it holds no text, or a section is too long.
        """
        principal.require("write")
        return await self.import_sections(
            principal, await self._files.place(principal, path), project=project
        )

    async def import_sections(
        self, principal: Principal, place: Place, *, project: str
    ) -> Imported:
        """Store the sections of a file that the principal may use."""
        principal.require("write")
        check_project(project)
        content = await asyncio.to_thread(place.read, bytes_max=limits.CALL_BYTES_MAX)
        intake = await self._intakes.open(principal)
        intake.files += 1
        drafts = await asyncio.to_thread(
            lambda: list(_section_drafts(_decoded(content, place), place, project=project))
        )
        for draft in drafts:
            await intake.add_draft(draft)
        return await intake.finish()


def _find_files(place: Place) -> list[Place]:
    """Return the files to take, proved readable unless they are an export."""
    match place.kind():
        case "file":
            if not place.name.lower().endswith(ENDINGS):
                raise InvalidRequestError(f"must end in {', '.join(ENDINGS)}", field="path")
            files = [place]
        case "directory":
            export = ExportPlace(place)
            if export.exists:
                # Episodes first: memories name them.
                return [*export.episodes.children(), *export.memories.children()]
            files = list(_walk(place))
        case _:
            raise NotFoundError("file", place.shown)
    for each in files:
        _prove(each)
    return files


def _walk(directory: Place) -> Iterator[Place]:
    """Yield the text files below a directory in a fixed order, but for hidden ones and exports.

    An export is taken by its own path, with the episodes before the memories that name them.
    """
    found = 0
    waiting = [directory]
    while waiting:
        place = waiting.pop()
        match place.kind():
            case "directory" if not ExportPlace(place).exists:
                visible = [child for child in place.children() if not child.name.startswith(".")]
                waiting.extend(reversed(visible))
            case "file" if place.name.lower().endswith(ENDINGS):
                found += 1
                if found > limits.IMPORT_FILES_MAX:
                    raise LimitExceededError(
                        "path", limit=limits.IMPORT_FILES_MAX, actual=found, unit="files"
                    )
                yield place
            case _:
                continue


def _prove(place: Place) -> None:
    """Refuse what could not be stored, before anything is."""
    if place.size() > limits.EXPORT_FILE_BYTES_MAX:
        raise _too_large(place, limits.EXPORT_FILE_BYTES_MAX)
    content = place.read(bytes_max=limits.EXPORT_FILE_BYTES_MAX)
    if is_page(content):
        return
    if len(content) > limits.MEMORY_BYTES_MAX:
        raise _too_large(place, limits.MEMORY_BYTES_MAX)
    _decoded(content, place)


def _too_large(place: Place, limit: int) -> LimitExceededError:
    return LimitExceededError(place.shown, limit=limit, actual=place.size(), unit="bytes")


def _decoded(content: bytes, place: Place) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise InvalidRequestError("is no UTF-8 text", field=place.shown) from exc


async def _take(intake: Intake, place: Place, *, project: str) -> None:
    content = await asyncio.to_thread(place.read, bytes_max=limits.EXPORT_FILE_BYTES_MAX)
    intake.files += 1
    if is_page(content):
        try:
            value = await asyncio.to_thread(read_any_page, content)
        except InvalidRequestError as exc:
            raise exc.within(place.shown) from exc
        await intake.add_page(value)
        return
    text = _decoded(content, place)
    if not text.strip():
        intake.skipped.append(place.shown)
        return
    try:
        draft = MemoryDraft(content=text, project=project, source=_source(place))
    except InvalidRequestError as exc:
        raise exc.within(place.shown) from exc
    await intake.add_draft(draft)


def _section_drafts(text: str, place: Place, *, project: str) -> Iterable[MemoryDraft]:
    """Yield a memory for each section that says something under its heading."""
    from engram.text.markdown import split_sections  # noqa: PLC0415 few texts are split

    for section in split_sections(text):
        if not text[section.body : section.end].strip():
            continue
        try:
            yield MemoryDraft(
                content=text[section.start : section.end].strip("\r\n"),
                category="project",
                project=project,
                source=_source(place),
                tags=(CLAUDEMD_TAG,),
            )
        except InvalidRequestError as exc:
            raise exc.within(f"{place.shown}#{section.heading}") from exc


def _source(place: Place) -> str:
    """Return the path of a file as a source, if it can be one."""
    try:
        check_label("source", place.shown, characters_max=limits.SOURCE_CHARACTERS_MAX)
    except InvalidRequestError:
        return DEFAULT_SOURCE
    return place.shown

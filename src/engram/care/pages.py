"""Memories and episodes as files that hold all of them, and back again."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from datetime import datetime
from typing import Any, get_args

from engram import limits
from engram.care.front_matter import has_header, read_page, write_page
from engram.care.readers import items, mapping, read_field, read_value
from engram.clock import format_time
from engram.errors import InvalidRequestError
from engram.model.checks import check_choice, check_label, check_range, check_text
from engram.model.memory import (
    Change,
    Episode,
    Memory,
    MemoryDraft,
    MemoryVersion,
    Relation,
    RelationDraft,
    StorageMode,
    check_project,
)
from engram.model.transfer import MemoryRecord

FORMAT = 1
"""Raised when a reader of this version could not read a file any more."""

_CHANGES: tuple[str, ...] = get_args(Change)
_MODES: tuple[str, ...] = get_args(StorageMode)


def memory_page(record: MemoryRecord) -> bytes:
    """Return a memory with its versions and relations as a file."""
    content = record.memory.content
    header = {
        "engram": FORMAT,
        "kind": "memory",
        **_plain(record.memory, without=("content",)),
        "content_bytes": len(content.encode()),
        "relations": [_plain(relation) for relation in record.relations],
        "versions": [_version(version) for version in record.versions],
    }
    return write_page(header, content)


def episode_page(episode: Episode) -> bytes:
    """Return an episode as a file; how many memories it has is said by those."""
    header = {"engram": FORMAT, "kind": "episode", **_plain(episode, without=("memories",))}
    return write_page(header)


def is_page(content: bytes) -> bool:
    """Return True if a file was written by this module."""
    return has_header(content, name="engram")


def read_any_page(content: bytes) -> MemoryRecord | Episode:
    """Return what `memory_page` or `episode_page` wrote.

    Raises:
        InvalidRequestError: the file holds something else, or was changed.
    """
    header, text = read_page(content)
    if header.pop("engram", None) != FORMAT:
        raise InvalidRequestError(f"is of another format than {FORMAT}", field="engram")
    match header.pop("kind", None):
        case "memory":
            return _read_memory(header, text)
        case "episode":
            return _read_episode(header)
        case _:
            raise InvalidRequestError("must be memory or episode", field="kind")


def _read_memory(header: dict[str, Any], text: str) -> MemoryRecord:
    if header.pop("content_bytes", None) != len(text.encode()):
        message = "the text was changed: files of an export are taken as they were written"
        raise InvalidRequestError(message, field="content_bytes")
    relations = [read_value(Relation, each) for each in items(header.pop("relations", None))]
    versions = [_read_version(each) for each in items(header.pop("versions", None))]
    memory = read_value(Memory, {**header, "content": text})
    record = MemoryRecord(memory=memory, versions=tuple(versions), relations=tuple(relations))
    _check_record(record)
    return record


def _read_episode(header: dict[str, Any]) -> Episode:
    episode = read_value(Episode, {**header, "memories": 0})
    check_project(episode.project)
    check_text("description", episode.description, bytes_max=limits.EPISODE_BYTES_MAX)
    check_text("summary", episode.summary or "", bytes_max=limits.EPISODE_BYTES_MAX)
    return episode


def _check_record(record: MemoryRecord) -> None:
    numbers = [version.memory.version for version in record.versions]
    if numbers != list(range(1, record.memory.version)):
        raise InvalidRequestError("must be all before the present one", field="versions")
    _check_text_kept(record)
    for memory in (record.memory, *(version.memory for version in record.versions)):
        if memory.id != record.memory.id:
            raise InvalidRequestError("must be of the same memory", field="versions")
        _check_memory(memory)
    for relation in record.relations:
        if relation.source_id != record.memory.id:
            raise InvalidRequestError("must begin at this memory", field="relations")
        RelationDraft(
            source_id=relation.source_id,
            target_id=relation.target_id,
            relation_type=relation.relation_type,
            strength=relation.strength,
        )


def _check_text_kept(record: MemoryRecord) -> None:
    """Refuse a forgotten memory whose text is not in its history: nobody could read it again."""
    if record.memory.is_searched:
        return
    if not record.versions or record.versions[-1].memory.content_hash != record.memory.content_hash:
        raise InvalidRequestError("must end with the text that was forgotten", field="versions")


def _check_memory(memory: Memory) -> None:
    """Refuse what could not have been stored: a draft of the same fields must be valid."""
    given = {each.name: getattr(memory, each.name) for each in fields(MemoryDraft)}
    if not memory.is_searched:
        given["valid_to"] = None  # One that was forgotten early ended before it began.
    MemoryDraft(**given)
    if hashlib.sha256(memory.content.encode()).hexdigest() != memory.content_hash:
        raise InvalidRequestError("is not that of the text", field="content_hash")
    check_choice("storage_mode", memory.storage_mode, _MODES)
    check_range("version", memory.version, minimum=1, maximum=limits.WHOLE_NUMBER_MAX)
    check_text("summary", memory.summary or "", bytes_max=limits.SUMMARY_BYTES_MAX)
    check_text("reason", memory.reason or "", bytes_max=limits.REASON_BYTES_MAX)


def _version(version: MemoryVersion) -> dict[str, Any]:
    return {
        "change": version.change,
        "ended_at": format_time(version.ended_at),
        "actor": version.actor,
        **_plain(version.memory),
    }


def _read_version(values: object) -> MemoryVersion:
    given = dict(mapping(values))
    change, ended_at, actor = (
        read_field(name, given.pop(name, None)) for name in ("change", "ended_at", "actor")
    )
    check_choice("change", change, _CHANGES)
    check_label("actor", actor, characters_max=limits.NAME_CHARACTERS_MAX)
    if ended_at is None:
        raise InvalidRequestError("is missing", field="ended_at")
    memory = read_value(Memory, given)
    return MemoryVersion(memory=memory, change=change, ended_at=ended_at, actor=actor)


def _plain(value: Any, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        each.name: _as_plain(getattr(value, each.name))
        for each in fields(value)
        if each.name not in without
    }


def _as_plain(value: object) -> object:
    return format_time(value) if isinstance(value, datetime) else value

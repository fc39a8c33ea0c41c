"""Serialize a memory or an episode to a Markdown file with front matter, and parse it.

Each line of the front matter is a name and a JSON value, which is also YAML. The rest of the file is
the text itself, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

from msgspec import ValidationError, convert

from engram import limits
from engram.clock import NANOID_LENGTH, format_time
from engram.errors import InvalidRequestError
from engram.model import memory as model
from engram.model.fields import check_label, check_moment, check_range, check_text
from engram.model.memory import Episode, Memory, MemoryVersion, Relation
from engram.transfer.memories import MemoryRecord

T = TypeVar("T")

FORMAT = 1
"""Incremented when older versions can no longer read the files."""

_FENCE = "---"
_BEGIN = f"{_FENCE}\n".encode()
_END = f"\n{_FENCE}\n".encode()
_NAME = re.compile(r"[a-z_]+")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON does not escape and YAML does not allow: controls, marks and line ends."""

_VERSION_FIELDS = ("change", "ended_at", "actor")


def write_memory(record: MemoryRecord) -> bytes:
    """Serialize a memory with its versions and relations."""
    content = record.memory.content
    header = {
        **_plain(record.memory, without="content"),
        "content_bytes": len(content.encode()),
        "relations": [_plain(relation) for relation in record.relations],
        "versions": [_plain_version(version) for version in record.versions],
    }
    return _write("memory", header, content)


def write_episode(episode: Episode) -> bytes:
    """Serialize an episode, without the number of memories, which is derived."""
    return _write("episode", _plain(episode, without="memories"))


def is_exported(content: bytes) -> bool:
    """Return True if a file was written by this module."""
    return content.startswith(_BEGIN + b"engram: ")


def read_exported(content: bytes) -> MemoryRecord | Episode:
    """Parse the output of `write_memory` or `write_episode`.

    Raises:
        InvalidRequestError: the file is something else, or was changed.
    """
    header, text = _split(content)
    if header.pop("engram", None) != FORMAT:
        raise InvalidRequestError(f"is of another format than {FORMAT}", field="engram")
    match header.pop("kind", None):
        case "memory":
            return _read_memory(header, text)
        case "episode":
            return _read_episode(header)
        case _:
            raise InvalidRequestError("must be memory or episode", field="kind")


def _write(kind: str, header: Mapping[str, Any], text: str = "") -> bytes:
    header = {"engram": FORMAT, "kind": kind, **header}
    lines = [f"{name}: {_as_json(value)}" for name, value in header.items()]
    return "\n".join((_FENCE, *lines, _FENCE, text)).encode()


def _as_json(value: object) -> str:
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _plain(value: Any, *, without: str | None = None) -> dict[str, Any]:
    """Return the fields of a value in JSON types."""
    values = {name: getattr(value, name) for name in value.__struct_fields__}
    return {
        name: format_time(each) if isinstance(each, datetime) else each
        for name, each in values.items()
        if name != without
    }


def _plain_version(version: MemoryVersion) -> dict[str, Any]:
    """Return a version as one mapping: the change, and the memory before it."""
    return _plain(version, without="memory") | _plain(version.memory)


def _split(content: bytes) -> tuple[dict[str, Any], str]:
    """Return the front matter and the text of a file."""
    header, found, text = content.removeprefix(_BEGIN).partition(_END)
    if not content.startswith(_BEGIN) or not found:
        raise InvalidRequestError("has no header between two lines of ---")
    try:
        return dict(map(_read_line, header.decode().split("\n"))), text.decode()
    except UnicodeDecodeError as exc:
        raise InvalidRequestError("is not UTF-8 text") from exc


def _read_line(line: str) -> tuple[str, Any]:
    name, colon, value = line.partition(": ")
    if not colon or not _NAME.fullmatch(name):
        raise InvalidRequestError("has a header line that is not 'name: value'")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError) as exc:
        raise InvalidRequestError("is not a JSON value", field=name) from exc


def _read_memory(header: dict[str, Any], text: str) -> MemoryRecord:
    if header.pop("content_bytes", None) != len(text.encode()):
        message = "the text was changed: files of an export are taken as they were written"
        raise InvalidRequestError(message, field="content_bytes")
    relations = [_read(Relation, each) for each in _list(header.pop("relations", None))]
    versions = [_read_version(each) for each in _list(header.pop("versions", None))]
    memory = _read(Memory, {**header, "content": text})
    record = MemoryRecord(memory=memory, versions=tuple(versions), relations=tuple(relations))
    _check_record(record)
    return record


def _read_episode(header: dict[str, Any]) -> Episode:
    episode = _read(Episode, {**header, "memories": 0})
    model.check_project(episode.project)
    check_text("description", episode.description, bytes_max=limits.EPISODE_BYTES_MAX)
    check_text("summary", episode.summary or "", bytes_max=limits.EPISODE_BYTES_MAX)
    return episode


def _read_version(values: object) -> MemoryVersion:
    given = dict(_mapping(values))
    types = _types(MemoryVersion)
    own = {name: _read_field(types, name, given.pop(name, None)) for name in _VERSION_FIELDS}
    check_label("actor", own["actor"], characters_max=limits.NAME_CHARACTERS_MAX)
    return MemoryVersion(memory=_read(Memory, given), **own)


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
        _check_as(model.RelationDraft, relation)


def _check_text_kept(record: MemoryRecord) -> None:
    """Refuse a forgotten memory whose text is not in its history: it could never be read."""
    if record.memory.is_searched:
        return
    if not record.versions or record.versions[-1].memory.content_hash != record.memory.content_hash:
        raise InvalidRequestError("must end with the text that was forgotten", field="versions")


def _check_memory(memory: Memory) -> None:
    # One that was forgotten early ended before it began.
    _check_as(model.MemoryDraft, memory, **({} if memory.is_searched else {"valid_to": None}))
    if hashlib.sha256(memory.content.encode()).hexdigest() != memory.content_hash:
        raise InvalidRequestError("is not that of the text", field="content_hash")
    check_range("version", memory.version, minimum=1, maximum=limits.WHOLE_NUMBER_MAX)
    check_text("summary", memory.summary or "", bytes_max=limits.SUMMARY_BYTES_MAX)
    check_text("reason", memory.reason or "", bytes_max=limits.REASON_BYTES_MAX)


def _check_as(draft: Any, value: object, **changed: Any) -> None:
    """Refuse what could not have been stored: a draft of the same fields must be valid."""
    draft(**{name: getattr(value, name) for name in draft.__struct_fields__} | changed)


def _read(kind: type[T], values: object) -> T:
    """Build a value from a mapping that has all of its fields, and no others."""
    given, types = _mapping(values), _types(kind)
    if unknown := sorted(given.keys() - types.keys()):
        raise InvalidRequestError("is not known", field=unknown[0])
    if missing := sorted(types.keys() - given.keys()):
        raise InvalidRequestError("is missing", field=missing[0])
    return kind(**{name: _read_field(types, name, value) for name, value in given.items()})


_types = cache(get_type_hints)
"""The types of a struct's fields by name, without their marks."""


def _read_field(types: Mapping[str, Any], name: str, value: object) -> Any:
    wrong = InvalidRequestError("has a wrong value", field=name)
    try:
        read: Any = convert(value, types[name])
    except (ValidationError, UnicodeEncodeError) as exc:
        raise wrong from exc
    match read:
        case datetime():
            check_moment(name, read)
            return read.astimezone(UTC)
        case str() if name in ID_PREFIXES and not _is_id(read, ID_PREFIXES[name]):
            raise wrong
        case _:
            return read


ID_PREFIXES = {
    "id": ("mem_", "rel_", "ep_"),
    "episode_id": ("ep_",),
    "document_id": ("doc_",),
    "source_id": ("mem_",),
    "target_id": ("mem_",),
}
"""Prefixes of the fields that are ids."""

_NANOID = re.compile(rf"[A-Za-z0-9_-]{{{NANOID_LENGTH}}}")


def _is_id(text: str, prefixes: tuple[str, ...]) -> bool:
    """Return True if a text is one of the prefixes and a nanoid."""
    return text.startswith(prefixes) and _NANOID.fullmatch(text.partition("_")[2]) is not None


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequestError("is not a mapping")
    return cast("Mapping[str, Any]", value)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRequestError("is not a list")
    return cast("list[Any]", value)

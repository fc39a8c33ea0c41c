"""Lines of an export to and from the values that are stored."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, cast

import msgspec

from engram.clock import format_time
from engram.errors import InvalidRequestError
from engram.model.conversation import Conversation, ConversationDraft, Message, MessageDraft
from engram.model.document import Document
from engram.model.fields import check_moment
from engram.model.ids import EpisodeId
from engram.model.memory import (
    Episode,
    Memory,
    MemoryDraft,
    MemoryOptions,
    MemoryVersion,
    Relation,
)
from engram.model.value import derived
from engram.storage.content.messages import to_json
from engram.transfer.export_format import (
    NO_METADATA,
    ConversationLine,
    DocumentLine,
    EpisodeLine,
    Line,
    MemoryFields,
    MemoryLine,
    MessageLine,
    RelationLine,
    VersionLine,
)
from engram.transfer.memories import MemoryRecord

_ID = re.compile(r"[a-z]{2,4}_[A-Za-z0-9_-]{1,64}", re.ASCII)


def time_text(moment: datetime | None) -> str | None:
    """Return a time as a line has it."""
    return None if moment is None else format_time(moment)


def parse_time(text: str, *, field: str) -> datetime:
    """Return the time of a line.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidRequestError("is not a time", field=field) from exc
    check_moment(field, moment)
    return moment


def _optional_time(text: str | None, *, field: str) -> datetime | None:
    return None if text is None else parse_time(text, field=field)


def check_id(text: str, *, prefix: str) -> str:
    """Return an id that may be stored.

    Raises:
        InvalidRequestError: it does not look like one of ours.
    """
    if not text.startswith(prefix) or _ID.fullmatch(text) is None:
        raise InvalidRequestError(f"must be an id that begins with {prefix}", field="id")
    return text


def conversation_line(conversation: Conversation, *, is_default: bool) -> ConversationLine:
    """Return the line of a conversation."""
    return ConversationLine(
        id=conversation.id,
        project=conversation.project,
        title=conversation.title,
        agent_id=conversation.agent_id,
        tags=conversation.tags,
        metadata=_raw(conversation.metadata or None),
        is_default=is_default,
        messages=conversation.message_count,
        created_at=format_time(conversation.created_at),
        updated_at=format_time(conversation.updated_at),
    )


def draft_of(line: ConversationLine) -> ConversationDraft:
    """Return what a conversation is created from.

    Raises:
        InvalidRequestError: it cannot be stored here.
    """
    return ConversationDraft(
        title=line.title,
        agent_id=line.agent_id,
        project=line.project,
        tags=line.tags,
        metadata=parse_metadata(line.metadata) or {},
    )


def message_line(message: Message, *, captured_as: str | None = None) -> MessageLine:
    """Return the line of a message."""
    return MessageLine(
        sequence=message.sequence,
        role=message.role,
        name=message.name,
        tool_call_id=message.tool_call_id,
        tool_name=message.tool_name,
        occurred_at=time_text(message.occurred_at),
        created_at=format_time(message.created_at),
        captured_as=captured_as,
        metadata=_raw(message.metadata),
        content=message.content,
    )


def message_draft(line: MessageLine) -> MessageDraft:
    """Return the message to append.

    Raises:
        InvalidRequestError: it cannot be stored here.
    """
    return MessageDraft(
        role=line.role,
        content=line.content,
        name=line.name,
        tool_call_id=line.tool_call_id,
        tool_name=line.tool_name,
        occurred_at=_optional_time(line.occurred_at, field="occurred_at"),
        metadata=parse_metadata(line.metadata),
    )


def episode_line(episode: Episode) -> EpisodeLine:
    """Return the line of an episode."""
    return EpisodeLine(
        id=episode.id,
        project=episode.project,
        description=episode.description,
        started_at=format_time(episode.started_at),
        ended_at=time_text(episode.ended_at),
        summary=episode.summary,
    )


def episode_of(line: EpisodeLine) -> Episode:
    """Return the episode of a line."""
    return Episode(
        id=EpisodeId(check_id(line.id, prefix="ep_")),
        project=line.project,
        description=line.description,
        started_at=parse_time(line.started_at, field="started_at"),
        ended_at=_optional_time(line.ended_at, field="ended_at"),
        summary=line.summary,
        memories=0,
    )


def relation_line(relation: Relation) -> RelationLine:
    """Return the line of a relation."""
    return RelationLine(
        source_id=relation.source_id,
        target_id=relation.target_id,
        relation_type=relation.relation_type,
        strength=relation.strength,
        created_at=format_time(relation.created_at),
    )


def memory_lines(record: MemoryRecord, *, document: Document | None) -> list[Line]:
    """Return the lines of a memory, its versions and its document, without the body."""
    memory = record.memory
    is_body = document is not None and document.sha256 == memory.content_hash
    lines: list[Line] = [
        MemoryLine(
            **_fields(memory),
            created_at=format_time(memory.created_at),
            versions=len(record.versions),
            content=None if is_body else memory.content,
        )
    ]
    following = [*(version.memory for version in record.versions[1:]), memory]
    for version, after in zip(record.versions, following, strict=False):
        lines.append(_version_line(version, after))
    if document is not None:
        lines.append(document_line(document))
    return lines


def document_line(document: Document) -> DocumentLine:
    """Return the line of a document."""
    return DocumentLine(
        id=document.id,
        name=document.name,
        media_type=document.media_type,
        tier=document.tier,
        size_bytes=document.size_bytes,
        sha256=document.sha256,
        created_at=format_time(document.created_at),
    )


def record_of(
    line: MemoryLine, versions: Sequence[VersionLine], *, document: DocumentLine | None
) -> MemoryRecord:
    """Return the memory of its lines.

    Raises:
        InvalidRequestError: it cannot be stored here.
    """
    check_id(line.id, prefix="mem_")
    if (line.document_id is None) != (document is None) or len(versions) != line.versions:
        raise InvalidRequestError("is not followed by its document and all versions")
    if document is not None and document.id != line.document_id:
        raise InvalidRequestError("is followed by another document")
    if line.content is None and document is None:
        raise InvalidRequestError("must have content", field="content")
    created_at = parse_time(line.created_at, field="created_at")
    content = line.content or ""
    digest = document.sha256 if document and line.content is None else _sha256(content)
    memory = _memory(line, content, digest, created_at)
    _check(memory, needs_content=line.content is not None)
    history = list[MemoryVersion]()
    for each in reversed(versions):
        if each.content is not None:
            content, digest = each.content, _sha256(each.content)
        former = _memory(each, content, digest, created_at)
        _check(former, needs_content=each.content is not None)
        history.append(
            MemoryVersion(
                memory=former,
                change=each.change,
                ended_at=parse_time(each.ended_at, field="ended_at"),
                actor=each.actor,
            )
        )
    _check_order(line, versions)
    return MemoryRecord(memory=memory, versions=tuple(reversed(history)))


def parse_metadata(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return the metadata of a line; None if it has none.

    Raises:
        InvalidRequestError: it is not an object, or has numbers that cannot be stored.
    """
    text = bytes(raw)
    if not text:
        return None
    try:
        # The standard parser keeps whole numbers of any size, as those that stored them did.
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidRequestError("cannot be read", field="metadata") from exc
    if not isinstance(value, dict):
        raise InvalidRequestError("must be a JSON object", field="metadata")
    return cast("dict[str, Any]", value)


def _check(memory: Memory, *, needs_content: bool) -> None:
    """Refuse a memory with values that are out of bounds."""
    options = derived(MemoryOptions, memory)
    if needs_content:
        MemoryDraft(content=memory.content, **msgspec.structs.asdict(options))


def _check_order(line: MemoryLine, versions: Sequence[VersionLine]) -> None:
    numbers = [each.version for each in versions] + [line.version]
    if numbers[0] < 1 or any(one >= two for one, two in pairwise(numbers)):
        raise InvalidRequestError("must rise from version to version", field="version")
    if line.is_forgotten and line.document_id is None and not versions:
        # Its text is kept in its last version alone.
        raise InvalidRequestError("must have versions if it is forgotten", field="versions")


def _version_line(version: MemoryVersion, after: Memory) -> VersionLine:
    memory = version.memory
    return VersionLine(
        **_fields(memory),
        change=version.change,
        actor=version.actor,
        ended_at=format_time(version.ended_at),
        content=None if memory.content_hash == after.content_hash else memory.content,
    )


_SAME = tuple(
    name
    for name in MemoryFields.__struct_fields__
    if name not in ("valid_from", "valid_to", "expires_at", "updated_at", "is_forgotten")
)
"""Fields that a line has as a memory does."""

_TIMES = ("valid_from", "valid_to", "expires_at")


def _fields(memory: Memory) -> dict[str, Any]:
    return {
        **{name: getattr(memory, name) for name in _SAME},
        **{name: time_text(getattr(memory, name)) for name in _TIMES},
        "updated_at": format_time(memory.updated_at),
        "is_forgotten": not memory.is_searched,
    }


def _memory(line: MemoryFields, content: str, digest: str, created_at: datetime) -> Memory:
    times = {name: _optional_time(getattr(line, name), field=name) for name in _TIMES}
    values: dict[str, Any] = {name: getattr(line, name) for name in _SAME} | times
    return Memory(
        **values,
        content=content,
        content_hash=digest,
        created_at=created_at,
        updated_at=parse_time(line.updated_at, field="updated_at"),
        is_searched=not line.is_forgotten,
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _raw(metadata: Mapping[str, Any] | None) -> msgspec.Raw:
    return NO_METADATA if metadata is None else msgspec.Raw(to_json(metadata).encode())

"""Read an organisation as the lines of an export, page by page.

Each page is read in a snapshot of its own, so that no export holds up a writer, however slowly it is read. The
numbers of the newest conversation and memory are taken before the first page: what is stored later is left out,
and so are messages that are appended after their conversation was read.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from engram import limits
from engram.clock import format_time, from_microseconds, to_microseconds
from engram.errors import ConflictError, NotFoundError
from engram.model.conversation import Conversation, Message
from engram.model.document import Document
from engram.model.export import ExportRequest
from engram.model.ids import ConversationKey, EpisodeId
from engram.model.row_keys import message_key
from engram.storage import document_rows
from engram.storage.content import messages
from engram.storage.memories.relations import RelationRow, relations_of
from engram.storage.organization import OrganizationStore
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.transfer.compression import compress_stream
from engram.transfer.export_format import (
    BodyLine,
    ConversationLine,
    Encoder,
    EpisodeLine,
    FeedbackLine,
    ForgottenLine,
    Header,
    Line,
    MemoryLine,
    ProjectLine,
    TombstoneLine,
    encode_line,
)
from engram.transfer.export_lines import (
    conversation_line,
    episode_line,
    memory_lines,
    message_line,
    relation_line,
)
from engram.transfer.memories import MemoryRecord, load_records, read_episodes

_SQL = load_queries("exporting.sql", package="engram.transfer")
_MESSAGE_ROW_BYTES = 300
"""Estimated size of a message without its content, so that a page of short ones has an end."""
_SIZES_READ = 2_000
_LATEST = 2**62
"""Later than any time."""

Lines = Sequence[Line]
T = TypeVar("T")


async def export_bytes(
    store: OrganizationStore, request: ExportRequest, header: Header
) -> AsyncIterator[bytes]:
    """Yield an export: the header, what the request selects, and the manifest.

    Raises:
        ConflictError: a conversation or document was deleted while it was read; there is no manifest then.
        StoreCorruptError: the bytes of something do not match its hash.
    """
    encoded = _encoded(store, request, header)
    chosen = encoded if request.compression == "none" else compress_stream(encoded)
    async for data in chosen:
        yield data


async def _encoded(
    store: OrganizationStore, request: ExportRequest, header: Header
) -> AsyncIterator[bytes]:
    encoder, reader = Encoder(), Reader(store, request)
    yield encode_line(header)
    async for lines in reader.read():
        yield await asyncio.to_thread(encoder.encode, lines)
    yield encoder.finish()


class _Last(NamedTuple):
    """The columns of `last_numbers`."""

    conversation: int
    memory: int


class _Head(NamedTuple):
    """The columns of `next_conversations`."""

    number: int
    is_default: int
    messages: int
    content_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.content_bytes + _MESSAGE_ROW_BYTES * (self.messages + 1)


@dataclass
class _Projects:
    """Counts what an export has of each project."""

    conversations: Counter[str] = field(default_factory=Counter[str])
    memories: Counter[str] = field(default_factory=Counter[str])
    episodes: Counter[str] = field(default_factory=Counter[str])

    def count(self, lines: Lines) -> None:
        for line in lines:
            match line:
                case ConversationLine():
                    self.conversations[line.project] += 1
                case MemoryLine():
                    self.memories[line.project] += 1
                case EpisodeLine():
                    self.episodes[line.project] += 1
                case _:
                    pass

    def lines(self) -> list[Line]:
        names = sorted({*self.conversations, *self.memories, *self.episodes})
        return [
            ProjectLine(
                name=name,
                conversations=self.conversations[name],
                memories=self.memories[name],
                episodes=self.episodes[name],
            )
            for name in names
        ]


class Reader:
    """Reads what a request selects of one organisation."""

    def __init__(self, store: OrganizationStore, request: ExportRequest) -> None:
        self._store = store
        self._request = request
        self._exported = array("q")
        """Numbers of the memories that were read, in ascending order; unused if nothing is left out."""

    async def read(self) -> AsyncIterator[Lines]:
        """Yield the lines of all sections in their order."""
        projects = _Projects()
        last = _Last._make(await self._read(_last_numbers))
        for section in (self._episodes, self._conversations, self._memories):
            async for lines in section(last):
                projects.count(lines)
                yield lines
        for section in (self._relations, self._feedback, self._tombstones, self._forgotten):
            async for lines in section(last):
                yield lines
        yield projects.lines()

    async def _read(self, work: Callable[[Transaction], T]) -> T:
        return await self._store.tenant.read(work)

    async def _episodes(self, _: _Last) -> AsyncIterator[Lines]:
        request = self._request
        # Those of somebody else would come along: an episode has no speaker.
        if request.subject is not None or not request.holds("note", "document"):
            return
        after: EpisodeId | None = None
        limit = limits.EXPORT_PAGE_ROWS
        while page := await read_episodes(self._store, request.project, after=after, limit=limit):
            yield [episode_line(each) for each in page]
            after = page[-1].id

    async def _conversations(self, last: _Last) -> AsyncIterator[Lines]:
        if not self._request.holds("conversation"):
            return
        after = 0
        while heads := await self._read(partial(self._next_heads, after=after, last=last)):
            after = heads[-1].number
            if len(heads) == 1 and heads[0].size_bytes > limits.EXPORT_PAGE_BYTES:
                async for lines in self._long_conversation(heads[0]):
                    yield lines
            else:
                yield await self._read(partial(self._read_whole, heads=heads))

    def _next_heads(self, tx: Transaction, *, after: int, last: _Last) -> list[_Head]:
        """Return the next conversations that fit a page together, or one that is longer."""
        statement, values = self._selecting("next_conversations")
        limit = limits.EXPORT_PAGE_ROWS
        bounds = {"after": after, "last": last.conversation, "limit": limit}
        heads, size = list[_Head](), 0
        for head in map(_Head._make, tx.execute(statement, **values, **bounds).fetchall()):
            size += head.size_bytes
            if heads and size > limits.EXPORT_PAGE_BYTES:
                break
            heads.append(head)
        return heads

    def _read_whole(self, tx: Transaction, *, heads: Sequence[_Head]) -> Lines:
        found = messages.read_conversations(tx, [head.number for head in heads])
        captured = read_captured(tx, [head.number for head in heads])
        lines = list[Line]()
        for head in heads:
            conversation = found.get(ConversationKey(head.number))
            if conversation is None:
                continue  # Deleted since.
            count = conversation.message_count
            chosen = self._choose(
                conversation,
                read_messages(tx, head.number, conversation, first=1, last=count),
            )
            lines += self._conversation_lines(head, conversation, chosen, captured, is_first=True)
        return lines

    async def _long_conversation(self, head: _Head) -> AsyncIterator[Lines]:
        """Yield a conversation in pages, with the messages that it had when the first was read."""
        found = await self._read(partial(messages.read_conversations, numbers=[head.number]))
        if not found:
            return
        conversation = found[ConversationKey(head.number)]
        first, is_first = 1, True
        while first <= conversation.message_count:
            work = partial(_read_some, number=head.number, conversation=conversation, first=first)
            some, captured = await self._read(work)
            first = some[-1].sequence + 1
            chosen = self._choose(conversation, some)
            lines = self._conversation_lines(
                head, conversation, chosen, captured, is_first=is_first
            )
            is_first = is_first and not lines
            yield lines

    def _conversation_lines(
        self,
        head: _Head,
        conversation: Conversation,
        chosen: Sequence[Message],
        captured: Mapping[tuple[int, int], str],
        *,
        is_first: bool,
    ) -> list[Line]:
        """Return the lines of messages, after that of their conversation if it has none yet."""
        lines = list[Line]()
        if is_first and (chosen or self._is_about(conversation)):
            lines.append(conversation_line(conversation, is_default=bool(head.is_default)))
        lines += [
            message_line(each, captured_as=captured.get((head.number, each.sequence)))
            for each in chosen
        ]
        return lines

    def _choose(self, conversation: Conversation, some: Sequence[Message]) -> Sequence[Message]:
        if self._is_about(conversation):
            return some
        subject = self._request.subject
        return [each for each in some if _is_marked(subject, each.name, each.metadata)]

    def _is_about(self, conversation: Conversation) -> bool:
        """Return True if all messages of a conversation are chosen."""
        subject = self._request.subject
        return subject is None or _is_marked(subject, conversation.agent_id, conversation.metadata)

    async def _memories(self, last: _Last) -> AsyncIterator[Lines]:
        if not self._request.holds("note", "document"):
            return
        after = 0
        while numbers := await self._read(partial(self._next_memories, after=after, last=last)):
            after = numbers[-1]
            self._exported.extend(numbers)
            for record, document in await self._read(partial(_read_records, numbers=numbers)):
                yield memory_lines(record, document=document)
                if document is not None:
                    async for body in self._body(document):
                        yield body

    def _next_memories(self, tx: Transaction, *, after: int, last: _Last) -> list[int]:
        statement, values = self._selecting("next_memories")
        limit = limits.EXPORT_MEMORIES_READ
        bounds = {"after": after, "last": last.memory, "limit": limit}
        return [number for (number,) in tx.execute(statement, **values, **bounds)]

    async def _body(self, document: Document) -> AsyncIterator[Lines]:
        rest = b""
        try:
            async for data in self._store.documents.read_body(document.id):
                lines, rest = _body_lines(rest + data)
                yield lines
        except NotFoundError as exc:
            raise _deleted("document", document.id) from exc
        while rest:
            line, length = _body_line(rest)
            # What ends inside of a character is not text.
            yield [line if length else BodyLine(base64=rest)]
            rest = rest[length or len(rest) :]

    async def _relations(self, last: _Last) -> AsyncIterator[Lines]:
        if not self._request.holds("note", "document"):
            return
        after = {"source": 0, "target": 0, "relation_type": ""}
        bounds = {"last": last.memory, "limit": limits.EXPORT_PAGE_ROWS}
        while page := await self._read(partial(_next_relations, values={**after, **bounds})):
            chosen = [line for row, line in page if self._has(row.source) and self._has(row.target)]
            yield chosen
            end = page[-1][0]
            after = {
                "source": end.source,
                "target": end.target,
                "relation_type": end.relation_type,
            }

    async def _feedback(self, last: _Last) -> AsyncIterator[Lines]:
        if not self._request.holds("note", "document"):
            return
        after = {"memory": 0, "number": 0}
        bounds = {"last": last.memory, "limit": limits.EXPORT_PAGE_ROWS}
        while rows := await self._rows("next_feedback", **after, **bounds):
            yield [_feedback_line(row) for row in rows if self._has(row[0])]
            after = {"memory": rows[-1][0], "number": rows[-1][1]}

    async def _tombstones(self, _: _Last) -> AsyncIterator[Lines]:
        if self._request.holds("note", "document"):
            async for rows in self._removals("next_tombstones"):
                yield [
                    TombstoneLine(
                        id=id_,
                        sha256=sha256.hex(),
                        removed_at=_time(removed_at),
                        actor=actor,
                    )
                    for id_, sha256, removed_at, actor in rows
                ]

    async def _forgotten(self, _: _Last) -> AsyncIterator[Lines]:
        if self._request.holds("conversation"):
            async for rows in self._removals("next_forgotten"):
                yield [
                    ForgottenLine(id=id_, forgotten_at=_time(forgotten_at), actor=actor)
                    for id_, forgotten_at, actor in rows
                ]

    async def _removals(self, statement: str) -> AsyncIterator[list[Any]]:
        """Yield pages of what was removed, which has neither a project nor a subject any more."""
        request = self._request
        if request.project is not None or request.subject is not None:
            return
        values = {
            "since": _stored(request.since, without=-_LATEST),
            "before": _stored(request.before, without=_LATEST),
            "limit": limits.EXPORT_PAGE_ROWS,
        }
        after = ""
        while rows := await self._rows(statement, after=after, **values):
            yield rows
            after = rows[-1][0]

    async def _rows(self, statement: str, **values: Any) -> list[Any]:
        return await self._read(lambda tx: tx.execute(_SQL[statement], **values).fetchall())

    def _has(self, memory: int) -> bool:
        """Return True if a memory was read; without conditions all were, up to the last."""
        if self._request.is_whole:
            return True
        place = bisect_left(self._exported, memory)
        return place < len(self._exported) and self._exported[place] == memory

    def _selecting(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return a statement with the conditions of the request, and their values."""
        request, conditions, values = self._request, list[str](), dict[str, Any]()
        if request.project is not None:
            conditions.append("in_project")
            values["project"] = request.project
        if request.since is not None:
            conditions.append("changed_since")
            values["since"] = to_microseconds(request.since)
        if request.before is not None:
            conditions.append("stored_before")
            values["before"] = to_microseconds(request.before)
        if name == "next_memories":
            if not request.holds("document"):
                conditions.append("is_note")
            if not request.holds("note"):
                conditions.append("is_document")
            if request.subject is not None:
                conditions.append("is_of_source")
                values["subject"] = request.subject
        text = " ".join(_SQL[each] for each in conditions)
        return _SQL[name].replace("/*conditions*/", text), values


def _last_numbers(tx: Transaction) -> Sequence[int]:
    return tx.execute(_SQL["last_numbers"]).fetchone()


def _is_marked(subject: str | None, name: str | None, metadata: Mapping[str, Any] | None) -> bool:
    """Return True if a name or a field of metadata equals the subject."""
    return name == subject or subject in _texts(metadata)


def _texts(metadata: Mapping[str, Any] | None) -> Iterable[object]:
    return () if metadata is None else metadata.values()


def read_messages(
    tx: Transaction, number: int, conversation: Conversation, *, first: int, last: int
) -> list[Message]:
    if last < first:
        return []
    rows = messages.message_rows(
        tx, first=message_key(number, first), last=message_key(number, last)
    )
    known = {ConversationKey(number): conversation}
    return list(messages.read_rows(tx, rows, known=known).values())


def _read_some(
    tx: Transaction, *, number: int, conversation: Conversation, first: int
) -> tuple[list[Message], Mapping[tuple[int, int], str]]:
    """Return the messages of the next page, at least one, and the identities of captured ones.

    Raises:
        ConflictError: the conversation is gone.
    """
    keys = {
        "first": message_key(number, first),
        "last": message_key(number, conversation.message_count),
    }
    count, size = 0, 0
    for (characters,) in tx.execute(_SQL["next_sizes"], **keys, limit=_SIZES_READ).fetchall():
        size += characters + _MESSAGE_ROW_BYTES
        if count and size > limits.EXPORT_PAGE_BYTES:
            break
        count += 1
    last = first + count - 1
    some = read_messages(tx, number, conversation, first=first, last=last)
    if not some:
        raise _deleted("conversation", conversation.id)
    return some, read_captured(tx, [number], first=first, last=last)


def read_captured(
    tx: Transaction,
    numbers: Sequence[int],
    *,
    first: int = 1,
    last: int = limits.CONVERSATION_MESSAGES_MAX,
) -> Mapping[tuple[int, int], str]:
    """Return the identities of captured messages by conversation and sequence."""
    values = {"numbers": json.dumps(numbers), "first": first, "last": last}
    rows = tx.execute(_SQL["captured_in"], **values)
    return {(number, sequence): identity for number, sequence, identity in rows}


def _read_records(
    tx: Transaction, *, numbers: Sequence[int]
) -> list[tuple[MemoryRecord, Document | None]]:
    records = load_records(tx, numbers)
    owned = document_rows.of_memories(tx, [each.memory.id for each in records])
    return [(each, owned.get(each.memory.id)) for each in records]


def _next_relations(
    tx: Transaction, *, values: Mapping[str, Any]
) -> list[tuple[RelationRow, Line]]:
    rows = [RelationRow._make(row) for row in tx.execute(_SQL["next_relations"], **values)]
    return list(zip(rows, map(relation_line, relations_of(tx, rows)), strict=True))


def _feedback_line(row: Sequence[Any]) -> FeedbackLine:
    _, number, memory_id, helpful, event_id, failure_class, actor, created_at = row
    return FeedbackLine(
        memory_id=memory_id,
        number=number,
        helpful=bool(helpful),
        event_id=event_id,
        failure_class=failure_class,
        actor=actor,
        created_at=_time(created_at),
    )


def _body_lines(data: bytes) -> tuple[list[Line], bytes]:
    """Return the lines of the next bytes of a body, and the rest, which belongs to the next ones.

    Text stays readable, so a character is not split between two lines.
    """
    lines, start = list[Line](), 0
    while len(data) - start >= limits.EXPORT_TEXT_CHARACTERS:
        part = data[start : start + limits.EXPORT_TEXT_CHARACTERS]
        line, length = _body_line(part)
        lines.append(line)
        start += length
    return lines, data[start:]


def _body_line(data: bytes) -> tuple[BodyLine, int]:
    """Return a line of bytes, and how many of them it has: a character at their end may not be whole."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data)
    except UnicodeDecodeError:
        return BodyLine(base64=data), len(data)
    return BodyLine(text=text), len(data) - len(decoder.getstate()[0])


def _deleted(kind: str, id_: str) -> ConflictError:
    return ConflictError(
        f"{kind} {id_} was deleted while it was exported: the export is incomplete, begin it again"
    )


def _time(microseconds: int) -> str:
    return format_time(from_microseconds(microseconds))


def _stored(moment: datetime | None, *, without: int) -> int:
    return without if moment is None else to_microseconds(moment)

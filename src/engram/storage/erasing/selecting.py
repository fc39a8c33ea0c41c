"""Find what an erasure is about: conversations, memories and messages, a bounded number at a time."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from engram import limits
from engram.model.erasure import ErasureScope, Subject, parse_subject
from engram.model.ids import MemoryId, MessageKey
from engram.model.row_keys import message_key
from engram.storage.conversations.records import FoundConversation, found_of
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.trash.rows import Part, read_parts

_SQL = load_queries("erasing/erasing.sql")


class Trashed(NamedTuple):
    """Something that was deleted before, and is in the trash."""

    id: str
    kind: str
    project: str
    source: str | None


class Target(NamedTuple):
    """What an erasure is about, and the last numbers of what it may remove."""

    scope: ErasureScope
    value: str
    last_conversation: int
    last_memory: int

    @property
    def subject(self) -> Subject | None:
        """Return the subject, if it is one."""
        return parse_subject(self.value) if self.scope == "subject" else None

    @property
    def conversations(self) -> str | None:
        """Return the name of the statement that finds conversations to hide."""
        match self.subject:
            case None:
                return "conversations_of_project" if self.scope == "project" else None
            case Subject("agent_id"):
                return "conversations_of_agent"
            case Subject("metadata"):
                return "conversations_with_metadata"
            case _:
                return None

    @property
    def memories(self) -> str | None:
        """Return the name of the statement that finds memories."""
        match self.subject:
            case None:
                return "memories_of_project" if self.scope == "project" else None
            case Subject("source"):
                return "memories_of_source"
            case _:
                return None

    @property
    def messages(self) -> str | None:
        """Return the name of the statement that finds messages to blank."""
        match self.subject:
            case Subject("name"):
                return "messages_of_speaker"
            case Subject("metadata"):
                return "messages_with_metadata"
            case _:
                return None

    @property
    def sought(self) -> str:
        """Return the value that statements compare with."""
        return self.value if self.subject is None else self.subject.value

    def matches(self, metadata: str | None) -> bool:
        """Return True if a row that a statement found is meant, given its metadata."""
        if self.subject is None or self.subject.field != "metadata":
            return True
        return self.subject.is_in(json.loads(metadata or "{}"))

    def is_in_trash(self, tx: Transaction, entry: Trashed) -> bool:
        """Return True if something that was deleted before is meant, or any message of it."""
        match self.subject:
            case None:
                kept = entry.id if self.scope == "conversation" else entry.project
                return kept == self.value
            case Subject("agent_id" | "source" as field):
                kind = "conversation" if field == "agent_id" else "memory"
                return (entry.kind, entry.source) == (kind, self.sought)
            case _:
                return any(map(self._is_in_part, read_parts(tx, entry.id)))

    def _is_in_part(self, part: Part) -> bool:
        """Return True if a row of a part has the name or the metadata that is sought."""
        if part.table not in ("conversation", "message"):
            return False
        by_name = self.messages == "messages_of_speaker"
        return any(
            row.get("name") == self.sought if by_name else self.matches(row.get("metadata"))
            for row in part.by_column()
        )


class FoundMemory(NamedTuple):
    """A memory to remove."""

    number: int
    id: MemoryId
    document_id: str | None


class Page(NamedTuple):
    """What a read has found, and after which key the next one goes on; None at the end."""

    found: list[Any]
    after: int | None


def find_conversations(tx: Transaction, target: Target, *, after: int) -> Page:
    """Return the next conversations to hide, as `FoundConversation`."""
    if target.conversations is None:
        return Page([], None)
    upto = target.last_conversation
    rows = _rows(tx, target.conversations, target, after=after, upto=upto)
    found: list[FoundConversation] = []
    for row in rows:
        if len(found) == limits.ERASED_AT_ONCE:
            return Page(found, found[-1].stretch.conversation)
        if target.matches(row[-1]):
            found.append(found_of(row[:-1]))
    return Page(found, _next(rows))


def find_memories(tx: Transaction, target: Target, *, after: int) -> Page:
    """Return the next memories to remove, as `FoundMemory`."""
    if target.memories is None:
        return Page([], None)
    rows = _rows(tx, target.memories, target, after=after, upto=target.last_memory)
    found = [FoundMemory(*row) for row in rows[: limits.ERASED_AT_ONCE]]
    return Page(found, found[-1].number if len(rows) > len(found) else _next(rows))


def find_messages(tx: Transaction, target: Target, *, after: int) -> Page:
    """Return the keys of the next messages to blank."""
    if target.messages is None:
        return Page([], None)
    upto = message_key(target.last_conversation, limits.CONVERSATION_MESSAGES_MAX)
    rows = _rows(tx, target.messages, target, after=after, upto=upto)
    found: list[MessageKey] = []
    for key, metadata in rows:
        if len(found) == limits.ERASED_AT_ONCE:
            return Page(found, found[-1])
        if target.matches(metadata):
            found.append(MessageKey(key))
    return Page(found, _next(rows))


def find_trashed(
    tx: Transaction, target: Target, *, after: str
) -> tuple[list[Trashed], str | None]:
    """Return those of the next entries of the trash that are meant, and where the next read goes on."""
    values = {"after": after, "limit": limits.ERASED_AT_ONCE}
    entries = [Trashed(*row) for row in tx.execute(_SQL["trashed"], **values).fetchall()]
    found = [each for each in entries if target.is_in_trash(tx, each)]
    return found, entries[-1].id if len(entries) == limits.ERASED_AT_ONCE else None


def _rows(tx: Transaction, name: str, target: Target, *, after: int, upto: int) -> list[Any]:
    bounds = {"after": after, "upto": upto, "limit": limits.ERASURE_SCANNED_ROWS}
    return tx.execute(_SQL[name], value=target.sought, **bounds).fetchall()


def _next(rows: list[Any]) -> int | None:
    """Return where the next read goes on; None if this one has seen everything."""
    return rows[-1][0] if len(rows) == limits.ERASURE_SCANNED_ROWS else None

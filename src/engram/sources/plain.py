"""Plain JSON lines: a message in each, with role and content, and whatever else is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engram.sources.lines import Record, read_records
from engram.sources.texts import as_record, as_text, joined_texts, moment_of
from engram.sources.values import (
    ContentIds,
    Session,
    Source,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_ROLES: dict[object, SpokenRole] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_SESSIONS = ("session", "session_id", "sessionId", "conversation", "conversation_id", "thread_id")
_TIMES = ("occurred_at", "timestamp", "created_at", "time", "date")
_IDS = ("id", "uuid", "message_id")


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield the messages of a file; without a field that names a session, the file is one."""
    sessions, ids = dict[str, Session](), ContentIds()
    for record in read_records(file, tally):
        role = _ROLES.get(as_text(record.get("role")))
        text = joined_texts(record.get("content")) or as_text(record.get("text"))
        if role is None or text is None:
            tally.skip("no role or no content")
            continue
        name = _first(record, _SESSIONS) or file.path.stem
        session = sessions.setdefault(name, Session(id=name))
        session.title = session.title or as_text(record.get("title"))
        session.directory = session.directory or as_text(record.get("cwd"))
        session.project = session.project or as_text(record.get("project"))
        moments = (moment_of(record.get(key)) for key in _TIMES)
        yield SourceMessage(
            session,
            _first(record, _IDS) or ids.next(session, role, text),
            role,
            text,
            next((moment for moment in moments if moment is not None), None),
            name=as_text(record.get("name")),
            tool_name=as_text(record.get("tool_name")),
            tool_call_id=as_text(record.get("tool_call_id")),
            metadata=_metadata(record),
        )


def _first(record: Record, keys: Sequence[str]) -> str | None:
    found = (record.get(key) for key in keys)
    return next((str(value) for value in found if isinstance(value, str | int) and value), None)


def _metadata(record: Record) -> dict[str, Any] | None:
    return as_record(record.get("metadata")) or None


SOURCE = Source(name="jsonl", title="JSON lines", patterns=("**/*.jsonl",), read=read)

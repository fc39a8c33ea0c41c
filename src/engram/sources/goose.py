"""goose: a SQLite database of sessions, and in older versions a file of JSON lines for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.sources.blocks import THOUGHTS, ToolCalls, unless_own
from engram.sources.lines import parse_value, read_records
from engram.sources.places import Places
from engram.sources.tables import open_database, rows_of
from engram.sources.texts import as_list, as_record, as_text, joined_texts, moment_of, to_json
from engram.sources.values import (
    Session,
    Source,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_NOT_SAID = frozenset(
    {"contextLengthExceeded", "summarizationRequested", "systemNotification", "image"}
    | {"toolConfirmationRequest", "frontendToolRequest", "actionRequired"}
)


def roots(places: Places) -> tuple[Path, ...]:
    """Return where goose keeps its sessions."""
    chosen = places.variable("GOOSE_PATH_ROOT")
    place = places.data / "goose" / "sessions"
    return (place,) if chosen is None else (chosen / "data" / "sessions", place)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in all sessions of a database, or in one of the older files."""
    if file.path.suffix == ".jsonl":
        yield from _read_lines(file, tally)
    else:
        yield from _read_database(file.path, tally)


def _read_lines(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    session, calls = Session(id=file.path.stem), ToolCalls()
    for place, record in enumerate(read_records(file, tally)):
        if "role" not in record:
            session.directory = as_text(record.get("working_dir"))
            session.title = as_text(record.get("description"))
            continue
        # Older messages have no id; lines are only appended.
        own_id = as_text(record.get("id")) or f"line {place}"
        template = _template(session, own_id, record["role"], record.get("created"))
        yield from _read_parts(as_list(record.get("content")), template, calls, tally)


def _read_database(path: Path, tally: Tally) -> Iterator[SourceMessage]:
    with open_database(path) as database:
        sessions = {
            row["id"]: Session(
                id=row["id"],
                title=as_text(row.get("name")) or as_text(row.get("description")),
                directory=as_text(row.get("working_dir")),
                written_at=moment_of(row.get("updated_at")),
            )
            for row in rows_of(database, "sessions")
        }
        calls = ToolCalls()
        for row in rows_of(database, "messages", order="session_id, id"):
            tally.read += 1
            parts = parse_value(row["content_json"])
            if parts is None:
                tally.skip("invalid JSON")
                continue
            session = sessions.setdefault(row["session_id"], Session(id=row["session_id"]))
            own_id = as_text(row.get("message_id")) or f"row {row['id']}"
            template = _template(session, own_id, row["role"], row.get("created_timestamp"))
            yield from _read_parts(as_list(parts), template, calls, tally)


def _template(session: Session, own_id: str, said_by: object, created: object) -> SourceMessage:
    role: SpokenRole = "user" if said_by == "user" else "assistant"
    return SourceMessage(session, own_id, role, "", moment_of(created))


def _read_parts(
    parts: list[Any], message: SourceMessage, calls: ToolCalls, tally: Tally
) -> Iterator[SourceMessage]:
    for place, part in enumerate(map(as_record, parts)):
        own_id = message.id if place == 0 else f"{message.id}#{place}"
        template = message._replace(id=own_id)
        match part.get("type"):
            case "text":
                yield template._replace(content=as_text(part.get("text")) or "")
            case "toolRequest":
                yield from unless_own(_call(part, template, calls), tally)
            case "toolResponse":
                yield from unless_own(_result(part, template, calls), tally)
            case "thinking" | "redactedThinking":
                tally.skip(THOUGHTS)
            case str(kind) if kind in _NOT_SAID:
                tally.skip("not a message")
            case kind:
                tally.meet(f"content {kind}")


def _call(part: dict[str, Any], template: SourceMessage, calls: ToolCalls) -> SourceMessage:
    call_id = as_text(part.get("id"))
    value = as_record(as_record(part.get("toolCall")).get("value"))
    name = as_text(value.get("name"))
    calls.note(call_id, name)
    text = to_json(value.get("arguments"))
    return template._replace(role="assistant", content=text, tool_name=name, tool_call_id=call_id)


def _result(part: dict[str, Any], template: SourceMessage, calls: ToolCalls) -> SourceMessage:
    call_id, outcome = as_text(part.get("id")), as_record(part.get("toolResult"))
    value = outcome.get("value")
    text = joined_texts(value) or joined_texts(as_record(value).get("content"))
    return template._replace(
        role="tool",
        content=text or as_text(outcome.get("error")) or "",
        tool_name=calls.name_of(call_id),
        tool_call_id=call_id,
    )


SOURCE = Source(
    name="goose",
    title="goose",
    roots=roots,
    patterns=("sessions.db", "*.jsonl"),
    read=read,
    is_rewritten=True,
)

"""opencode: a SQLite database, and in older versions a JSON file for each message and part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.sources.blocks import THOUGHTS, unless_own
from engram.sources.documents import read_document
from engram.sources.lines import parse_record
from engram.sources.places import Places
from engram.sources.tables import Row, open_database, rows_of
from engram.sources.texts import as_record, as_text, moment_of, to_json
from engram.sources.values import (
    STILL_WRITTEN,
    Session,
    Source,
    SourceError,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_PARTS = """
SELECT message.id AS message_id, message.session_id AS session_id, message.data AS message,
    part.id AS id, part.data AS part
FROM message JOIN part ON part.message_id = message.id
ORDER BY message.session_id, message.time_created, message.id, part.id
"""
_NOT_SAID = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "file", "agent", "compaction", "retry"}
    | {"subtask"}
)


def roots(places: Places) -> tuple[Path, ...]:
    """Return where opencode keeps its sessions."""
    place = places.data / "opencode"
    chosen = places.variable("OPENCODE_DB")
    return (place,) if chosen is None else (chosen, place)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in all sessions of a database, or in one of the older files."""
    if file.path.suffix == ".json":
        yield from _read_session_file(file, tally)
    else:
        yield from _read_database(file.path, tally)


def _read_database(path: Path, tally: Tally) -> Iterator[SourceMessage]:
    with open_database(path) as database:
        sessions = {row["id"]: _session(row) for row in rows_of(database, "session")}
        for row in rows_of(database, "session_message"):
            tally.meet(f"session_message {row.get('type')}")
        for row in database.execute(_PARTS):
            tally.read += 1
            message, part = parse_record(row["message"]), parse_record(row["part"])
            if message is None or part is None:
                tally.skip("invalid JSON")
                continue
            session = sessions.setdefault(row["session_id"], Session(id=row["session_id"]))
            yield from _read_part(part, row["id"], message, session, tally)


def _session(row: Row | dict[str, Any]) -> Session:
    parent = as_text(row.get("parent_id")) or as_text(row.get("parentID"))
    return Session(
        id=str(row.get("id")),
        title=as_text(row.get("title")),
        directory=as_text(row.get("directory")),
        parent=parent,
        agent=None if parent is None else as_text(row.get("agent")) or "subagent",
    )


def _read_part(
    part: dict[str, Any], own_id: str, message: dict[str, Any], session: Session, tally: Tally
) -> Iterator[SourceMessage]:
    role: SpokenRole = "user" if message.get("role") == "user" else "assistant"
    moment = moment_of(as_record(message.get("time")).get("created"))
    match part.get("type"):
        case "text" if part.get("synthetic") or part.get("ignored"):
            tally.skip("harness text")
        case "text" | "tool" if _is_unfinished(part, message):
            tally.skip(STILL_WRITTEN)
        case "text":
            yield SourceMessage(session, own_id, role, as_text(part.get("text")) or "", moment)
        case "tool":
            template = SourceMessage(session, own_id, "assistant", "", moment)
            yield from _read_tool(part, template, tally)
        case "reasoning":
            tally.skip(THOUGHTS)
        case str(kind) if kind in _NOT_SAID:
            tally.skip("not a message")
        case kind:
            tally.meet(f"part {kind}")


def _is_unfinished(part: dict[str, Any], message: dict[str, Any]) -> bool:
    """Return True if the model is still writing a text, or the arguments of a call."""
    if message.get("error") or "completed" in as_record(message.get("time")):
        return False
    written = as_record(part.get("time"))
    is_begun = "start" in written and "end" not in written
    return is_begun or as_record(part.get("state")).get("status") == "pending"


def _read_tool(
    part: dict[str, Any], template: SourceMessage, tally: Tally
) -> Iterator[SourceMessage]:
    state = as_record(part.get("state"))
    call = template._replace(
        content=to_json(state.get("input")),
        tool_name=as_text(part.get("tool")),
        tool_call_id=as_text(part.get("callID")),
    )
    yield from unless_own(call, tally)
    if output := as_text(state.get("output")) or as_text(state.get("error")):
        result = call._replace(id=f"{template.id}#result", role="tool", content=output)
        yield from unless_own(result, tally)


def _read_session_file(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Read a session of the older files: `session/…/ID.json`, `message/ID/…`, `part/MESSAGE/…`."""
    session = _session(as_record(read_document(file, tally)))
    storage = next((each for each in file.path.parents if each.name == "session"), None)
    if storage is None:
        raise SourceError("is not below a directory `session`")
    place = storage.parent
    for path in _json_files(place / "message" / session.id):
        message = _load(path, tally)
        for part_path in _json_files(place / "part" / str(message.get("id"))):
            part = _load(part_path, tally)
            own_id = as_text(part.get("id")) or part_path.stem
            if part:
                yield from _read_part(part, own_id, message, session, tally)


def _load(path: Path, tally: Tally) -> dict[str, Any]:
    """Return the object in a file; one that cannot be read is counted, and is empty."""
    try:
        return as_record(read_document(SourceFile(path=path), tally))
    except SourceError:
        tally.skip("invalid JSON")
        return {}


def _json_files(directory: Path) -> list[Path]:
    """Return the files of a directory; their names sort by time."""
    return sorted(directory.glob("*.json"))


SOURCE = Source(
    name="opencode",
    title="opencode",
    roots=roots,
    patterns=("opencode*.db", "storage/session/**/*.json"),
    read=read,
)

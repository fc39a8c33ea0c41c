"""Cursor: the editor's key-value database, and files of JSON lines of its command line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from engram.sources.blocks import THOUGHTS, ToolCalls, read_blocks, spoken, unless_own
from engram.sources.lines import parse_record, read_records
from engram.sources.places import Places
from engram.sources.tables import has_table, open_database
from engram.sources.texts import as_list, as_record, as_text, label_of, moment_of, to_json
from engram.sources.values import (
    ContentIds,
    Session,
    Source,
    SourceError,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_COMPOSERS = "SELECT key, value FROM cursorDiskKV WHERE key GLOB 'composerData:*' ORDER BY key"
_BUBBLE = "SELECT value FROM cursorDiskKV WHERE key = ?"
_LINKS = "SELECT value FROM ItemTable WHERE key = 'composer.composerData'"
_NO_WORKSPACE = "empty-window"
_USERS = 1
"""The type of a bubble that the user wrote."""

_QUERY = ("<user_query>", "</user_query>")


def roots(places: Places) -> tuple[Path, ...]:
    """Return where Cursor keeps its chats."""
    return (
        places.application("Cursor") / "User",
        places.named("CURSOR_CONFIG_DIR", ".cursor"),
    )


def is_chosen(path: Path) -> bool:
    """Return False for the transcripts of sub-agents, which repeat what their parent tells."""
    return "subagents" not in path.parts


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in the chats of the editor, or in a session of the command line."""
    if file.path.suffix == ".jsonl":
        yield from _read_lines(file, tally)
    else:
        yield from _read_database(file.path, tally)


def _read_lines(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    session = Session(id=file.path.stem, project=_workspace(file.path))
    ids, calls = ContentIds(), ToolCalls()
    for record in read_records(file, tally):
        role = record.get("role")
        if role not in ("user", "assistant"):
            known = record.get("type") == "turn_ended"
            tally.skip("not a message") if known else tally.meet(record.get("type") or role)
            continue
        content = as_record(record.get("message")).get("content")
        blocks = (
            block._replace(text=_unwrapped(block.text))
            for block in read_blocks(content, role=role, calls=calls)
        )
        yield from spoken(blocks, SourceMessage(session, "", role, ""), ids=ids, tally=tally)


def _workspace(path: Path) -> str | None:
    """Return the name of the directory that a transcript belongs to; its path cannot be told."""
    place = next((each for each in path.parents if each.name == "agent-transcripts"), None)
    name = None if place is None else place.parent.name
    return None if name == _NO_WORKSPACE else name


def _unwrapped(text: str) -> str:
    """Return what the user wrote, without what the client put around it."""
    begins, ends = _QUERY
    before, mark, rest = text.partition(begins)
    return rest.partition(ends)[0].strip() if mark and not before.strip("\n") else text


def _read_database(path: Path, tally: Tally) -> Iterator[SourceMessage]:
    directories = _find_directories(path)
    with open_database(path) as database:
        if not has_table(database, "cursorDiskKV"):
            return
        for row in database.execute(_COMPOSERS):
            tally.read += 1
            composer = _parse(row["value"])
            if composer is None:
                tally.skip("invalid JSON")
                continue
            name = row["key"].partition(":")[2]
            session = Session(
                id=name,
                title=label_of(composer.get("name")),
                directory=directories.get(name),
                written_at=moment_of(composer.get("lastUpdatedAt")),
            )
            yield from _read_composer(database, composer, session, tally)


def _read_composer(
    database: sqlite3.Connection, composer: dict[str, Any], session: Session, tally: Tally
) -> Iterator[SourceMessage]:
    inline = [as_record(each) for each in as_list(composer.get("conversation"))]
    headers = map(as_record, as_list(composer.get("fullConversationHeadersOnly")))
    begun = moment_of(composer.get("createdAt"))
    for bubble in inline or _fetch(database, session.id, headers, tally):
        own_id = as_text(bubble.get("bubbleId"))
        if own_id is None:
            tally.skip("no id")
            continue
        role: SpokenRole = "user" if bubble.get("type") == _USERS else "assistant"
        moment = moment_of(bubble.get("createdAt")) or begun
        text = as_text(bubble.get("text")) or as_text(bubble.get("rawText"))
        if text:
            yield SourceMessage(session, own_id, role, text, moment)
        elif bubble.get("thinking"):
            tally.skip(THOUGHTS)
        tool = as_record(bubble.get("toolFormerData"))
        if tool:
            template = SourceMessage(session, own_id, role, "", moment)
            yield from _read_tool(tool, template, tally)


def _fetch(
    database: sqlite3.Connection, composer: str, headers: Iterator[dict[str, Any]], tally: Tally
) -> Iterator[dict[str, Any]]:
    for header in headers:
        name = as_text(header.get("bubbleId"))
        found = database.execute(_BUBBLE, (f"bubbleId:{composer}:{name}",)).fetchone()
        bubble = None if found is None else _parse(found["value"])
        tally.read += 1
        if bubble is None:
            tally.skip("no longer there" if found is None else "invalid JSON")
        else:
            yield {"bubbleId": name, **bubble}


def _read_tool(
    tool: dict[str, Any], template: SourceMessage, tally: Tally
) -> Iterator[SourceMessage]:
    given = tool.get("rawArgs") or tool.get("params")
    call = template._replace(
        id=f"{template.id}#call",
        role="assistant",
        content=given if isinstance(given, str) else to_json(given),
        tool_name=as_text(tool.get("name")),
        tool_call_id=as_text(tool.get("toolCallId")),
    )
    yield from unless_own(call, tally)
    if result := tool.get("result"):
        text = result if isinstance(result, str) else to_json(result)
        done = call._replace(id=f"{template.id}#result", role="tool", content=text)
        yield from unless_own(done, tally)


def _find_directories(path: Path) -> Mapping[str, str]:
    """Return the directories of chats by their ids, as the workspaces beside the database tell."""
    found = dict[str, str]()
    for place in path.parent.parent.glob("workspaceStorage/*/workspace.json"):
        workspace = parse_record(place.read_bytes()) or {}
        directory = _local_path(as_text(workspace.get("folder")))
        if directory is not None:
            found |= dict.fromkeys(_linked(place.with_name("state.vscdb")), directory)
    return found


def _local_path(address: str | None) -> str | None:
    parsed = urlparse(address or "")
    return unquote(parsed.path) if parsed.scheme == "file" else None


def _linked(path: Path) -> Iterator[str]:
    """Yield the ids of the chats of a workspace; none if its database cannot be read."""
    try:
        with open_database(path) as database:
            row = database.execute(_LINKS).fetchone()
    except (OSError, SourceError):
        return
    known = None if row is None else _parse(row["value"])
    for each in as_list((known or {}).get("allComposers")):
        if name := as_text(as_record(each).get("composerId")):
            yield name


def _parse(value: object) -> dict[str, Any] | None:
    return parse_record(value) if isinstance(value, str | bytes) else None


SOURCE = Source(
    name="cursor",
    title="Cursor",
    roots=roots,
    patterns=("globalStorage/state.vscdb", "projects/**/agent-transcripts/**/*.jsonl"),
    read=read,
    is_rewritten=True,
    is_chosen=is_chosen,
)

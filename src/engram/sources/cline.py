"""Cline and Roo Code: JSON files of a task, beside the editor's storage or in Cline's own directory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from engram.sources.blocks import Block, ToolCalls, read_blocks, spoken
from engram.sources.documents import read_document
from engram.sources.lines import parse_value
from engram.sources.places import Places
from engram.sources.texts import as_list, as_record, as_text, moment_of
from engram.sources.values import (
    ContentIds,
    Session,
    Source,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_TASK = re.compile(r"\A\s*<(task|feedback|user_message|answer)>\n?(.*?)\n?</\1>\s*\Z", re.DOTALL)
_INJECTED = ("<environment_details>", "[ERROR]", "# Task Progress", "<explicit_instructions")
_LEGACY = "api_conversation_history.json"


def cline_roots(places: Places) -> tuple[Path, ...]:
    """Return where Cline keeps its tasks."""
    data = places.variable("CLINE_DATA_DIR") or places.named("CLINE_DIR", ".cline") / "data"
    return (
        places.variable("CLINE_SESSION_DATA_DIR") or data / "sessions",
        *places.extension("saoudrizwan.claude-dev"),
    )


def roo_roots(places: Places) -> tuple[Path, ...]:
    """Return where Roo Code keeps its tasks."""
    return places.extension("rooveterinaryinc.roo-cline")


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in a task, tool calls and their results included."""
    document = read_document(file, tally)
    session = _session(file.path, as_record(document))
    messages = as_list(document) or as_list(as_record(document).get("messages"))
    ids, calls = ContentIds(), ToolCalls()
    for message in map(as_record, messages):
        tally.read += 1
        yield from _read_message(message, session, ids, calls, tally)


def _read_message(
    message: dict[str, Any], session: Session, ids: ContentIds, calls: ToolCalls, tally: Tally
) -> Iterator[SourceMessage]:
    role: SpokenRole = "user" if message.get("role") == "user" else "assistant"
    own_id = as_text(message.get("id")) or ""
    template = SourceMessage(session, own_id, role, "", moment_of(message.get("ts")))
    blocks = map(_judged, read_blocks(message.get("content"), role=role, calls=calls))
    yield from spoken(blocks, template, ids=ids, tally=tally)


def _judged(block: Block) -> Block:
    text = _unwrapped(block.text)
    reason = "harness text" if text.startswith(_INJECTED) else block.reason
    return block._replace(text=text, reason=reason)


def _unwrapped(text: str) -> str:
    found = _TASK.match(text)
    return text if found is None else found[2]


def _session(path: Path, document: dict[str, Any]) -> Session:
    name = as_text(document.get("sessionId")) or path.parent.name
    facts = _facts(path, name)
    titled = as_record(facts.get("metadata"))
    keys = ("cwd", "workspace_root", "workspace", "cwdOnTaskInitialization")
    directories = (as_text(facts.get(key)) for key in keys)
    return Session(
        id=name,
        title=as_text(titled.get("title")) or as_text(facts.get("task")),
        directory=next((each for each in directories if each), None),
    )


def _facts(path: Path, name: str) -> dict[str, Any]:
    """Return what the program notes of a task in other files."""
    if path.name != _LEGACY:
        return as_record(_value(path.with_name(f"{name}.json")))
    own = as_record(_value(path.with_name("history_item.json")))
    history = as_list(_value(path.parent.parent.parent / "state" / "taskHistory.json"))
    listed = (each for each in map(as_record, history) if str(each.get("id")) == name)
    return own or as_record(next(listed, None))


def _value(path: Path) -> object:
    try:
        return parse_value(path.read_bytes())
    except OSError:
        return None


_task_source = partial(Source, read=read)
CLINE = _task_source(
    name="cline",
    title="Cline",
    roots=cline_roots,
    patterns=("*/*.messages.json", f"tasks/*/{_LEGACY}"),
)
ROO = _task_source(name="roo", title="Roo Code", roots=roo_roots, patterns=(f"tasks/*/{_LEGACY}",))

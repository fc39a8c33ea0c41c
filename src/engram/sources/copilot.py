"""GitHub Copilot CLI: a file of JSON lines, the events of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.sources.blocks import ToolCalls, unless_own
from engram.sources.lines import Record, read_records
from engram.sources.places import Places
from engram.sources.texts import as_record, as_text, joined_texts, moment_of, to_json
from engram.sources.values import Session, Source, SourceFile, SourceMessage, SpokenRole, Tally

_NOT_SAID = (
    "session.",
    "assistant.",
    "system.",
    "hook.",
    "tool.",
    "permission.",
    "subagent.",
    "abort",
)
"""How events begin that hold nothing anybody said."""


def roots(places: Places) -> tuple[Path, ...]:
    """Return where Copilot CLI keeps its sessions."""
    return (places.named("COPILOT_HOME", ".copilot") / "session-state",)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in a session, tool calls and their results included."""
    session, calls = Session(id=file.path.parent.name), ToolCalls()
    for record in read_records(file, tally):
        data = as_record(record.get("data"))
        call_id = as_text(data.get("toolCallId"))
        match record.get("type"):
            case "session.start" | "session.resume":
                _describe(session, data)
            case "user.message":
                yield _said(session, record, "user", as_text(data.get("content")) or "")
            case "assistant.message":
                yield _said(session, record, "assistant", as_text(data.get("content")) or "")
            case "tool.execution_start":
                name = _tool_name(data)
                calls.note(call_id, name)
                call = _said(session, record, "assistant", to_json(data.get("arguments")))
                used = call._replace(tool_name=name, tool_call_id=call_id)
                yield from unless_own(used, tally)
            case "tool.execution_complete":
                text = joined_texts(as_record(data.get("result")).get("content"))
                result = _said(session, record, "tool", text)
                name = calls.name_of(call_id)
                used = result._replace(tool_name=name, tool_call_id=call_id)
                yield from unless_own(used, tally)
            case kind if str(kind).startswith(_NOT_SAID):
                tally.skip("not a message")
            case kind:
                tally.meet(kind)


def _tool_name(data: dict[str, Any]) -> str | None:
    server = as_text(data.get("mcpServerName"))
    name = as_text(data.get("mcpToolName")) or as_text(data.get("toolName"))
    return f"{server}-{name}" if server and name else name


def _describe(session: Session, data: dict[str, Any]) -> None:
    context = as_record(data.get("context"))
    session.id = as_text(data.get("sessionId")) or session.id
    session.directory = as_text(context.get("cwd")) or session.directory
    session.branch = as_text(context.get("branch")) or session.branch


def _said(session: Session, record: Record, role: SpokenRole, text: str) -> SourceMessage:
    moment = moment_of(record.get("timestamp"))
    return SourceMessage(session, str(record.get("id")), role, text, moment)


SOURCE = Source(
    name="copilot", title="Copilot CLI", roots=roots, patterns=("**/events.jsonl",), read=read
)

"""Codex CLI: a file of JSON lines for each session, in three generations.

The oldest files hold bare items of the model's protocol, later ones wrap them as `response_item` and add
events. What was said stands in both, so the same text is taken once from whichever comes first. Items also hold
what Codex tells the model itself, which events do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from engram.sources.blocks import THOUGHTS, ToolCalls, unless_own
from engram.sources.lines import Record, read_records
from engram.sources.places import Places
from engram.sources.texts import as_record, as_text, digest_of, joined_texts, moment_of, to_json
from engram.sources.values import ContentIds, Session, Source, SourceFile, SourceMessage, Tally

Stream = Literal["items", "events"]

_INJECTED = (
    "# AGENTS.md instructions for",
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<INSTRUCTIONS>",
    "<turn_aborted>",
    "<user_action>",
)
"""How texts begin that Codex adds in the user's name."""

_NOT_SAID = frozenset({"turn_context", "world_state", "token_usage_record", "compacted", "state"})
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_ITEMS = frozenset({"UserMessage", "AgentMessage"})
_INPUTS = ("arguments", "input", "action")


def roots(places: Places) -> tuple[Path, ...]:
    """Return where Codex keeps its sessions."""
    home = places.named("CODEX_HOME", ".codex")
    return home / "sessions", home / "archived_sessions"


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in a session, tool calls and their results included."""
    reader = _Reader(tally, fallback=file.path.stem)
    for record in read_records(file, tally):
        yield from reader.read(record)


class _Reader:
    def __init__(self, tally: Tally, *, fallback: str) -> None:
        self._tally = tally
        self._session = Session(id=fallback)
        self._calls = ToolCalls()
        self._ids = ContentIds()
        self._said: dict[Stream, Counter[tuple[str, str]]] = {
            "items": Counter(),
            "events": Counter(),
        }

    def read(self, record: Record) -> Iterator[SourceMessage]:
        kind, payload = as_text(record.get("type")), as_record(record.get("payload"))
        moment = moment_of(record.get("timestamp"))
        if kind == "session_meta" or ("type" not in record and "id" in record):
            self._describe(payload or record)
        elif kind == "response_item":
            yield from self._read_item(payload, moment)
        elif kind == "event_msg":
            yield from self._read_event(payload, moment)
        elif kind in ("message", "reasoning") or kind in _CALLS or kind in _OUTPUTS:
            yield from self._read_item(record, moment)
        elif kind in _NOT_SAID or as_text(record.get("record_type")) in _NOT_SAID:
            self._tally.skip("not a message")
        else:
            self._tally.meet(kind)

    def _describe(self, meta: dict[str, Any]) -> None:
        session, git = self._session, as_record(meta.get("git"))
        session.id = as_text(meta.get("id")) or as_text(meta.get("session_id")) or session.id
        session.directory = as_text(meta.get("cwd"))
        session.branch = as_text(git.get("branch"))
        session.parent = as_text(meta.get("forked_from_id")) or as_text(meta.get("parent_id"))

    def _read_item(self, item: dict[str, Any], moment: datetime | None) -> Iterator[SourceMessage]:
        kind = as_text(item.get("type", "message"))
        if kind == "message":
            yield from self._read_text(item, moment)
        elif kind in _CALLS:
            yield from self._read_call(item, moment)
        elif kind in _OUTPUTS:
            yield from self._read_output(item, moment)
        elif kind == "reasoning":
            self._tally.skip(THOUGHTS)
        else:
            self._tally.meet(f"response_item {kind}")

    def _read_text(self, item: dict[str, Any], moment: datetime | None) -> Iterator[SourceMessage]:
        role, text = item.get("role"), joined_texts(item.get("content"))
        if role not in ("user", "assistant") or (
            role == "user" and text.lstrip().startswith(_INJECTED)
        ):
            self._tally.skip("harness text")
        else:
            yield from self._say("items", role, text, moment)

    def _read_event(
        self, event: dict[str, Any], moment: datetime | None
    ) -> Iterator[SourceMessage]:
        item = as_record(event.get("item"))
        match event.get("type"):
            case "user_message":
                yield from self._say("events", "user", as_text(event.get("message")) or "", moment)
            case "agent_message":
                text = as_text(event.get("message")) or ""
                yield from self._say("events", "assistant", text, moment)
            case "item_completed" if as_text(item.get("type")) in _ITEMS:
                role = "user" if item["type"] == "UserMessage" else "assistant"
                yield from self._say("events", role, joined_texts(item.get("content")), moment)
            case _:
                self._tally.skip("not a message")

    def _say(
        self,
        stream: Stream,
        role: Literal["user", "assistant"],
        text: str,
        moment: datetime | None,
    ) -> Iterator[SourceMessage]:
        """Yield a text unless the other stream has said it before."""
        said, key = self._said, (role, digest_of(text))
        before = max(said["items"][key], said["events"][key])
        said[stream][key] += 1
        if text and said[stream][key] > before:
            own_id = self._ids.next(self._session, role, text)
            yield SourceMessage(self._session, own_id, role, text, moment)

    def _read_call(self, item: dict[str, Any], moment: datetime | None) -> Iterator[SourceMessage]:
        call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
        name = as_text(item.get("name")) or str(item["type"]).removesuffix("_call")
        if space := as_text(item.get("namespace")):
            name = f"{space}__{name}"
        self._calls.note(call_id, name)
        given = next((item[key] for key in _INPUTS if key in item), None)
        text = given if isinstance(given, str) else to_json(given)
        yield from self._use(name, call_id, "assistant", text, moment)

    def _read_output(
        self, item: dict[str, Any], moment: datetime | None
    ) -> Iterator[SourceMessage]:
        call_id, output = as_text(item.get("call_id")), item.get("output")
        text = joined_texts(output) or joined_texts(as_record(output).get("content"))
        yield from self._use(self._calls.name_of(call_id), call_id, "tool", text, moment)

    def _use(
        self,
        name: str | None,
        call_id: str | None,
        role: Literal["assistant", "tool"],
        text: str,
        moment: datetime | None,
    ) -> Iterator[SourceMessage]:
        own_id = self._ids.next(self._session, role, call_id or "", text)
        used = SourceMessage(
            self._session, own_id, role, text, moment, tool_name=name, tool_call_id=call_id
        )
        yield from unless_own(used, self._tally)


SOURCE = Source(
    name="codex", title="Codex CLI", roots=roots, patterns=("**/rollout-*.jsonl",), read=read
)

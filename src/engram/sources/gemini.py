"""Gemini CLI: a JSON file for each session, or a file of JSON lines that change what came before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.sources.blocks import THOUGHTS, unless_own
from engram.sources.documents import read_document
from engram.sources.lines import Record, read_records
from engram.sources.places import Places
from engram.sources.texts import as_list, as_record, as_text, joined_texts, moment_of, to_json
from engram.sources.values import Session, Source, SourceFile, SourceMessage, Tally

_ROLES = {"user": "user", "gemini": "assistant"}
_NOTICES = frozenset({"info", "error", "warning"})
_INJECTED = "<session_context>"


def roots(places: Places) -> tuple[Path, ...]:
    """Return where Gemini CLI keeps its sessions."""
    return (places.named("GEMINI_CLI_HOME") / ".gemini" / "tmp",)


def is_chosen(path: Path) -> bool:
    """Return False for the older of two files of one session."""
    return path.suffix == ".jsonl" or not path.with_suffix(".jsonl").exists()


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in a session and not taken back, tool calls and their results included."""
    state = _State(tally)
    if file.path.suffix == ".jsonl":
        for record in read_records(file, tally):
            state.apply(record)
    else:
        state.apply({"$set": read_document(file, tally)})
    session = _session(state, file.path)
    for message in state.messages.values():
        yield from _read_message(message, session, tally)


class _State:
    """A session as the lines so far have made it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.facts: dict[str, Any] = {}
        self.messages: dict[str, Record] = {}

    def apply(self, record: Record) -> None:
        if "$set" in record:
            self._set(as_record(record["$set"]))
        elif "$rewindTo" in record:
            self._rewind(as_text(record["$rewindTo"]) or "")
        elif "id" in record and "type" in record:
            self.messages[str(record["id"])] = record
        elif "sessionId" in record:
            self.facts |= record
        else:
            self._tally.meet(next(iter(record), None))

    def _set(self, changes: dict[str, Any]) -> None:
        self.facts |= {name: value for name, value in changes.items() if name != "messages"}
        for message in map(as_record, as_list(changes.get("messages"))):
            self.messages[str(message.get("id"))] = message

    def _rewind(self, message_id: str) -> None:
        ids = list(self.messages)
        for each in ids[ids.index(message_id) :] if message_id in self.messages else ():
            del self.messages[each]
            self._tally.skip("taken back")


def _session(state: _State, path: Path) -> Session:
    chats = next((each for each in path.parents if each.name == "chats"), None)
    within = () if chats is None else path.relative_to(chats).parts[:-1]
    return Session(
        id=as_text(state.facts.get("sessionId")) or path.stem,
        title=as_text(state.facts.get("summary")),
        directory=None if chats is None else _directory(chats.parent),
        parent=within[0] if within else None,
        agent=as_text(state.facts.get("kind")) if within else None,
    )


def _directory(place: Path) -> str | None:
    """Return the directory that a place for sessions belongs to."""
    try:
        return (place / ".project_root").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _read_message(message: Record, session: Session, tally: Tally) -> Iterator[SourceMessage]:
    kind, own_id = as_text(message.get("type")), str(message.get("id"))
    if kind in _NOTICES:
        tally.skip("notices")
        return
    if kind not in _ROLES:
        tally.meet(kind)
        return
    moment = moment_of(message.get("timestamp"))
    text = joined_texts(message.get("content"))
    if text.startswith(_INJECTED):
        tally.skip("harness text")
    elif text:
        role = "user" if kind == "user" else "assistant"
        yield SourceMessage(session, own_id, role, text, moment)
    for _ in as_list(message.get("thoughts")):
        tally.skip(THOUGHTS)
    for call in map(as_record, as_list(message.get("toolCalls"))):
        yield from _read_call(call, own_id, session, tally)


def _read_call(
    call: dict[str, Any], message_id: str, session: Session, tally: Tally
) -> Iterator[SourceMessage]:
    name, call_id = as_text(call.get("name")), as_text(call.get("id"))
    own_id = f"{message_id}#{call_id}"
    used = SourceMessage(
        session,
        own_id,
        "assistant",
        to_json(call.get("args")),
        moment_of(call.get("timestamp")),
        tool_name=name,
        tool_call_id=call_id,
    )
    yield from unless_own(used, tally)
    if output := _output(call):
        result = used._replace(id=f"{own_id}#result", role="tool", content=output)
        yield from unless_own(result, tally)


def _output(call: dict[str, Any]) -> str:
    results = [as_record(each) for each in as_list(call.get("result"))]
    answers = [as_record(each.get("functionResponse")).get("response") for each in results]
    texts = [as_text(as_record(each).get("output")) or to_json(each) for each in answers if each]
    return "\n".join(texts) or joined_texts(call.get("resultDisplay"))


SOURCE = Source(
    name="gemini",
    title="Gemini CLI",
    roots=roots,
    patterns=("**/chats/**/session-*.json", "**/chats/**/session-*.jsonl"),
    read=read,
    is_chosen=is_chosen,
)

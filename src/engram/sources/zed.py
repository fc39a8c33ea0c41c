"""Zed: a SQLite database of threads, each a JSON text, compressed in newer versions."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import zstandard

from engram import limits
from engram.sources.blocks import THOUGHTS, unless_own
from engram.sources.lines import parse_record
from engram.sources.places import Places
from engram.sources.tables import Row, open_database, rows_of
from engram.sources.texts import as_list, as_record, as_text, moment_of, to_json
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
    "User": "user",
    "Agent": "assistant",
    "user": "user",
    "assistant": "assistant",
    "system": "system",
}


def roots(places: Places) -> tuple[Path, ...]:
    """Return where Zed keeps its threads."""
    if places.platform == "linux":
        return (places.data / "zed" / "threads",)
    place = places.data if places.platform == "win32" else places.application("")
    return (place / "Zed" / "threads",)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in all threads; messages have no times, so each has its thread's."""
    with open_database(file.path) as database:
        for row in rows_of(database, "threads", order="updated_at"):
            tally.read += 1
            thread = _thread(row)
            if thread is None:
                tally.skip("unreadable thread")
                continue
            session = Session(
                id=str(row["id"]),
                title=as_text(thread.get("title")) or as_text(row.get("summary")),
                directory=_first_path(as_text(row.get("folder_paths"))),
                parent=as_text(row.get("parent_id")),
                written_at=moment_of(row["updated_at"]),
            )
            reader = _Reader(session, moment_of(row.get("created_at") or row["updated_at"]), tally)
            for message in as_list(thread.get("messages")):
                yield from reader.read(message)


def _thread(row: Row) -> dict[str, Any] | None:
    data = row["data"]
    if row["data_type"] == "zstd" and isinstance(data, bytes):
        data = _decompressed(data)
    return parse_record(data) if isinstance(data, str | bytes) else None


def _decompressed(data: bytes) -> bytes | None:
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as stream:
            text = stream.read(limits.SOURCE_LINE_BYTES_MAX + 1)
    except zstandard.ZstdError:
        return None
    return text if len(text) <= limits.SOURCE_LINE_BYTES_MAX else None


def _first_path(paths: str | None) -> str | None:
    return paths.splitlines()[0] if paths else None


class _Reader:
    def __init__(self, session: Session, moment: Any, tally: Tally) -> None:
        self._session = session
        self._moment = moment
        self._tally = tally
        self._ids = ContentIds()

    def read(self, message: object) -> Iterator[SourceMessage]:
        """Read a message of version 0.3 (`{"User": {…}}`) or of an older one (`{"role": …}`)."""
        fields = as_record(message)
        if "role" in fields:
            role, parts = _ROLES.get(as_text(fields["role"])), as_list(fields.get("segments"))
        else:
            kind = next(iter(fields), None)
            role, fields = _ROLES.get(kind), as_record(fields.get(kind or ""))
            parts = as_list(fields.get("content"))
        if role is None:
            known = message == "Resume"
            self._tally.skip("not a message") if known else self._tally.meet(message)
            return
        results = as_record(fields.get("tool_results"))
        yield from self._read_parts(role, parts, results)

    def _read_parts(
        self, role: SpokenRole, parts: Sequence[object], results: dict[str, Any]
    ) -> Iterator[SourceMessage]:
        for part in parts:
            fields = as_record(part)
            kind = fields.get("type") or next(iter(fields), "")
            match str(kind).lower():
                case "text":
                    text = as_text(fields.get("text")) or as_text(fields.get("Text")) or ""
                    yield self._message(role, text)
                case "tooluse":
                    yield from self._read_tool(as_record(fields.get("ToolUse")), results)
                case "thinking" | "redactedthinking":
                    self._tally.skip(THOUGHTS)
                case "image" | "mention":
                    self._tally.skip("images and files")
                case _:
                    self._tally.meet(f"content {kind}")

    def _read_tool(self, use: dict[str, Any], results: dict[str, Any]) -> Iterator[SourceMessage]:
        name, call_id = as_text(use.get("name")), as_text(use.get("id"))
        call = self._message("assistant", to_json(use.get("input")))
        call = call._replace(tool_name=name, tool_call_id=call_id)
        yield from unless_own(call, self._tally)
        content = as_record(as_record(results.get(call_id or "")).get("content"))
        if text := as_text(content.get("Text")):
            result = self._message("tool", text)
            yield from unless_own(
                result._replace(tool_name=name, tool_call_id=call_id), self._tally
            )

    def _message(self, role: SpokenRole, text: str) -> SourceMessage:
        own_id = self._ids.next(self._session, role, text)
        return SourceMessage(self._session, own_id, role, text, self._moment)


SOURCE = Source(
    name="zed",
    title="Zed",
    roots=roots,
    patterns=("threads.db",),
    read=read,
    is_rewritten=True,
)

"""Claude Code: a file of JSON lines for each session and each sub-agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.sources.blocks import OWN_TOOLS, Block, ToolCalls, is_own_tool, read_blocks, spoken
from engram.sources.lines import Record, parse_record, read_records
from engram.sources.places import Places
from engram.sources.texts import as_record, as_text, moment_of, to_json
from engram.sources.values import (
    ContentIds,
    Session,
    Source,
    SourceFile,
    SourceMessage,
    Tally,
)

_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
"""Records that hold a title, and the field that it is in."""

_NOT_SAID = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attachment",
        "attribution-snapshot",
        "content-replacement",
        "continued-in",
        "cost-state",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "speculation-accept",
        "system",
        "tag",
        "task-summary",
        "tools-used",
        "turn-duration",
        "worktree-state",
    }
)
"""Records that hold nothing anybody said; our own injections are among the attachments."""

_KEPT_DAYS = 30
"""Claude Code's own default."""

_HARNESS = (
    "<local-command-",
    "<command-name>",
    "<command-message>",
    "<bash-",
    "<task-notification>",
)
"""How texts begin that Claude Code adds in the name of the user."""

_REMINDER = ("<system-reminder>", "</system-reminder>")


def roots(places: Places) -> tuple[Path, ...]:
    """Return where Claude Code keeps its sessions."""
    return (places.named("CLAUDE_CONFIG_DIR", ".claude") / "projects",)


def keeps_days(places: Places) -> int | None:
    """Return after how many days Claude Code deletes a session."""
    path = places.named("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    try:
        days = (parse_record(path.read_bytes()) or {}).get("cleanupPeriodDays")
    except OSError:
        days = None
    return days if isinstance(days, int) else _KEPT_DAYS


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in a session, tool calls and their results included."""
    reader = _Reader(tally, fallback=file.path.stem)
    for record in read_records(file, tally):
        yield from reader.read(record)


class _Reader:
    def __init__(self, tally: Tally, *, fallback: str) -> None:
        self._tally = tally
        self._fallback = fallback
        self._sessions: dict[str, Session] = {}
        self._calls = ToolCalls()
        self._ids = ContentIds()

    def read(self, record: Record) -> Iterator[SourceMessage]:
        kind = as_text(record.get("type"))
        if kind in ("user", "assistant"):
            yield from self._read_message(record)
        elif kind in _TITLES:
            self._session(record).title = as_text(record.get(_TITLES[kind]))
        elif kind in _NOT_SAID:
            self._tally.skip("not a message")
        else:
            self._tally.meet(kind)

    def _read_message(self, record: Record) -> Iterator[SourceMessage]:
        if reason := _reason_to_skip(record):
            self._tally.skip(reason)
            return
        session, content = self._session(record), as_record(record.get("message")).get("content")
        own_id = as_text(record.get("uuid"))
        if own_id is None:
            own_id = self._ids.next(session, str(record.get("timestamp")), to_json(content))
        template = SourceMessage(
            session, own_id, record["type"], "", moment_of(record.get("timestamp"))
        )
        is_own = _is_of_own_server(record)
        blocks = (
            _judged(block, is_own=is_own)
            for block in read_blocks(content, role=record["type"], calls=self._calls)
        )
        for message in spoken(blocks, template, ids=self._ids, tally=self._tally):
            yield _as_summary(message) if record.get("isCompactSummary") else message

    def _session(self, record: Record) -> Session:
        """Return the session of a record; a sub-agent has its own, named after its parent's."""
        name = as_text(record.get("sessionId")) or self._fallback
        agent = as_text(record.get("agentId"))
        parent = None
        if agent is not None or record.get("isSidechain"):
            parent, agent = name, agent or "sidechain"
            name = f"{parent}/{agent}"
        session = self._sessions.setdefault(name, Session(id=name, parent=parent, agent=agent))
        session.directory = session.directory or as_text(record.get("cwd"))
        session.branch = session.branch or as_text(record.get("gitBranch"))
        return session


def _reason_to_skip(record: Record) -> str | None:
    if record.get("isMeta"):
        return "harness text"
    if record.get("isApiErrorMessage"):
        return "error of the model service"
    if as_record(record.get("message")).get("model") == "<synthetic>":
        return "harness text"
    return None


def _is_of_own_server(record: Record) -> bool:
    """Return True for a result of one of our own tools, whose call may be before the offset."""
    meta = as_record(as_record(record.get("mcpMeta")).get("_meta"))
    server: dict[str, Any] = as_record(meta.get("io.modelcontextprotocol/serverInfo"))
    return is_own_tool(f"mcp__{server.get('name')}__")


def _judged(block: Block, *, is_own: bool) -> Block:
    """Return a block with the reason to leave it out, if there is one."""
    if is_own:
        return block._replace(reason=OWN_TOOLS)
    if block.tool_name is None and block.role != "tool" and _is_noise(block.text):
        return block._replace(reason="harness text")
    return block


def _as_summary(message: SourceMessage) -> SourceMessage:
    return message._replace(role="system", metadata={"kind": "compact_summary"})


def _is_noise(text: str) -> bool:
    stripped = text.strip()
    begins, ends = _REMINDER
    is_reminder = stripped.startswith(begins) and stripped.endswith(ends)
    return is_reminder or stripped.startswith(_HARNESS)


SOURCE = Source(
    name="claude",
    title="Claude Code",
    roots=roots,
    patterns=("**/*.jsonl",),
    read=read,
    resumes=True,
    keeps_days=keeps_days,
)

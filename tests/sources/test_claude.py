"""Claude Code's sessions: what was said is kept, with its sub-agents; what it notes for itself is not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.sources.imports import Importer, write_lines


def record(kind: str, uuid: str, content: object, **fields: Any) -> dict[str, Any]:
    """Return a line of a session."""
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": "s1",
        "timestamp": "2026-03-02T10:00:00.000Z",
        "cwd": "/srv/harbour",
        "gitBranch": "main",
        "message": {"role": kind, "content": content},
        **fields,
    }


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.py"}]}
OWN_CALL = {"type": "tool_use", "id": "t2", "name": "mcp__engram__search", "input": {"query": "x"}}
OWN_RESULT = {"type": "tool_result", "tool_use_id": "t2", "content": "recalled"}

SESSION = [
    {"type": "queue-operation", "sessionId": "s1", "content": "list the files"},
    record("user", "u1", "list the files"),
    {"type": "attachment", "uuid": "x1", "sessionId": "s1", "attachment": {"type": "hook"}},
    record("assistant", "a1", [{"type": "thinking", "thinking": "hm"}, CALL]),
    record("user", "u2", [RESULT]),
    record("assistant", "a2", [OWN_CALL]),
    record("user", "u3", [OWN_RESULT]),
    record("assistant", "a3", [{"type": "text", "text": "There is one file."}]),
    record("user", "m1", "Caveat: generated", isMeta=True),
    record("user", "n1", "<task-notification>\n<task-id>a7</task-id>\n</task-notification>"),
    record("user", "n2", [{"type": "text", "text": "<system-reminder>x</system-reminder>"}]),
    record("user", "c1", "This session is continued.", isCompactSummary=True),
    {"type": "ai-title", "sessionId": "s1", "aiTitle": "Files of the harbour"},
]

SAID = [
    ("user", "list the files"),
    ("assistant", '{"command": "ls"}'),
    ("tool", "a.py"),
    ("assistant", "There is one file."),
    ("system", "This session is continued."),
]


async def test_a_session_is_stored_as_it_was_said(importer: Importer, tmp_path: Path) -> None:
    write_lines(tmp_path / "projects" / "p" / "s1.jsonl", SESSION)

    report = await importer("claude", tmp_path / "projects")

    assert [SAID] == await importer.said()
    (conversation,) = await importer.conversations()
    assert "Files of the harbour" == conversation.title
    assert ("claude",) == conversation.tags
    assert "main" == conversation.metadata["branch"]
    messages = await importer.messages(conversation)
    assert ["Bash", "Bash"] == [message.tool_name for message in messages[1:3]]
    assert datetime(2026, 3, 2, 10, tzinfo=UTC) == messages[0].occurred_at
    assert {"kind": "compact_summary"} == messages[-1].metadata
    assert 2 == report.tally.skipped["Engram's own tools"]
    assert 3 == report.tally.skipped["harness text"]
    assert not report.tally.drift


async def test_sub_agents_keep_their_parent(importer: Importer, tmp_path: Path) -> None:
    agent = {"isSidechain": True, "agentId": "a7"}
    write_lines(tmp_path / "p" / "s1.jsonl", [record("user", "u1", "look around")])
    write_lines(
        tmp_path / "p" / "s1" / "subagents" / "agent-a7.jsonl",
        [record("user", "v1", "search the pier", **agent)],
    )

    await importer("claude", tmp_path / "p")

    parent, child = await importer.conversations()
    assert "parent_session" not in parent.metadata
    assert ("s1", "a7") == (child.metadata["parent_session"], child.metadata["agent"])


async def test_importing_twice_changes_nothing(importer: Importer, tmp_path: Path) -> None:
    write_lines(tmp_path / "s1.jsonl", SESSION)
    await importer("claude", tmp_path)
    before = await importer.everything()

    unchanged = await importer("claude", tmp_path)
    again = await importer("claude", tmp_path, reread=True)

    assert (1, 0) == (unchanged.unchanged, unchanged.tally.read)
    assert (0, len(SAID)) == (again.stored, again.known)
    assert before == await importer.everything()

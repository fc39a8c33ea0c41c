"""Small files as each program writes them, and what is said in them."""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from tests.sources.imports import write_json, write_lines

Said = list[tuple[str, str]]
ASKED, ANSWERED = "When does the ferry leave?", "The ferry leaves at nine."
TALK: Said = [("user", ASKED), ("assistant", ANSWERED)]
CALL = ("assistant", '{"path": "timetable.txt"}')
RESULT = ("tool", "09:00 ferry")


class Sample(NamedTuple):
    """Files of a program, and what they say."""

    write: Callable[[Path], object]
    said: Sequence[Said]
    """Of each conversation, in the order of their titles."""
    skipped: Mapping[str, int] = {}
    directory: str | None = "/srv/harbour"


def write_database(path: Path, script: str, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> Path:
    """Write a SQLite database."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(script)
        for table, values in rows.items():
            marks = ", ".join("?" * len(values[0]))
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608
    return path


def write_zip(path: Path, entries: Mapping[str, object]) -> Path:
    """Write an archive of JSON files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in entries.items():
            archive.writestr(name, json.dumps(value))
    return path


def _codex_first(place: Path) -> None:
    """Bare items of the model's protocol."""
    write_lines(
        place / "2025" / "rollout-2025-05-07-c1.jsonl",
        [
            {"id": "c1", "timestamp": "2025-05-07T10:00:00Z", "instructions": None, "git": {}},
            {"record_type": "state"},
            _codex_text("user", "<environment_context>\n/srv</environment_context>"),
            _codex_text("user", ASKED),
            {"type": "reasoning", "summary": []},
            {
                "type": "function_call",
                "name": "read",
                "call_id": "k1",
                "arguments": '{"path": "timetable.txt"}',
            },
            {"type": "function_call_output", "call_id": "k1", "output": "09:00 ferry"},
            _codex_text("assistant", ANSWERED),
        ],
    )


def _codex_text(role: str, text: str) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _codex_line(kind: str, payload: object) -> dict[str, Any]:
    return {"timestamp": "2026-03-02T10:00:00.000Z", "type": kind, "payload": payload}


def _codex_second(place: Path) -> None:
    """Items and events, which say the same."""
    write_lines(
        place / "rollout-2025-10-01-c2.jsonl",
        [
            _codex_line("session_meta", {"id": "c2", "cwd": "/srv/harbour", "git": {}}),
            _codex_line("response_item", _codex_text("user", "# AGENTS.md instructions for x")),
            _codex_line("response_item", _codex_text("user", ASKED)),
            _codex_line("event_msg", {"type": "user_message", "message": ASKED}),
            _codex_line("event_msg", {"type": "agent_message", "message": ANSWERED}),
            _codex_line("response_item", _codex_text("assistant", ANSWERED)),
            _codex_line("event_msg", {"type": "user_message", "message": ASKED}),
            _codex_line("response_item", _codex_text("user", ASKED)),
            _codex_line("turn_context", {"cwd": "/srv/harbour"}),
        ],
    )


def _codex_third(place: Path) -> None:
    """Items that are completed, and tools of our own server."""

    def item(kind: str, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"type": "item_completed", "item": {"type": kind, "id": "x", "content": content}}

    own = {"type": "function_call", "name": "search", "namespace": "mcp__engram", "call_id": "k2"}
    write_lines(
        place / "rollout-2026-11-17-c3.jsonl",
        [
            _codex_line("session_meta", {"session_id": "c3", "id": "c3", "cwd": "/srv/harbour"}),
            _codex_line("response_item", _codex_text("developer", "<skills_instructions>")),
            _codex_line("world_state", {"full": True}),
            _codex_line("event_msg", item("UserMessage", ASKED)),
            _codex_line("response_item", {**own, "arguments": "{}"}),
            _codex_line("event_msg", item("McpToolCall", "")),
            _codex_line(
                "response_item",
                {"type": "function_call_output", "call_id": "k2", "output": "recalled"},
            ),
            _codex_line("event_msg", item("AgentMessage", ANSWERED)),
            _codex_line("response_item", _codex_text("assistant", ANSWERED)),
            _codex_line("token_usage_record", {}),
        ],
    )


def _gemini_lines(place: Path) -> None:
    """Lines that set, repeat and take back."""
    (place / "w").mkdir()
    (place / "w" / ".project_root").write_text("/srv/harbour")
    call = {
        "id": "k1",
        "name": "read",
        "args": {"path": "timetable.txt"},
        "result": [{"functionResponse": {"response": {"output": "09:00 ferry"}}}],
    }
    context = {"id": "g0", "type": "user", "content": [{"text": "<session_context>\nhello"}]}
    write_lines(
        place / "w" / "chats" / "session-1.jsonl",
        [
            {"sessionId": "g1", "projectHash": "abc", "kind": "main"},
            {"$set": {"messages": [context], "lastUpdated": "2026-03-02T10:00:00Z"}},
            {"id": "m0", "type": "user", "content": [{"text": "a mistake"}]},
            {"$rewindTo": "m0"},
            {"id": "m1", "type": "user", "content": [{"text": ASKED}]},
            {"id": "m2", "type": "gemini", "content": ""},
            {"id": "m2", "type": "gemini", "content": "", "toolCalls": [call]},
            {"id": "m3", "type": "gemini", "content": ANSWERED, "thoughts": ["hm"]},
            {"id": "m4", "type": "info", "content": "compressed"},
        ],
    )


def _gemini_document(place: Path) -> None:
    """One value, and a newer file of the same session beside another one."""
    messages = [
        {"id": "m1", "type": "user", "content": ASKED},
        {"id": "m2", "type": "gemini", "content": ANSWERED},
    ]
    session = {"sessionId": "g2", "messages": messages}
    write_json(place / "w" / "chats" / "session-2.json", session)
    write_json(place / "w" / "chats" / "session-3.json", {"sessionId": "g3", "messages": messages})
    write_lines(place / "w" / "chats" / "session-3.jsonl", [{"sessionId": "g3"}])


def _cursor_lines(place: Path) -> None:
    base = place / "projects" / "srv-harbour" / "agent-transcripts" / "t1"
    text = f"<user_query>\n{ASKED}\n</user_query>"
    lines = [
        {"role": "user", "message": {"content": [{"type": "text", "text": text}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": ANSWERED}]}},
        {"type": "turn_ended"},
    ]
    write_lines(base / "t1.jsonl", lines)
    write_lines(base / "subagents" / "t2.jsonl", lines)


def _cursor_database(place: Path) -> None:
    tables = "CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB);"
    headers = [{"bubbleId": each} for each in ("b1", "b2", "b3", "gone")]
    tool = {"name": "read", "rawArgs": CALL[1], "result": RESULT[1], "toolCallId": "k1"}
    values = {
        "composerData:k1": {"name": "Ferry", "fullConversationHeadersOnly": headers},
        "bubbleId:k1:b1": {"type": 1, "text": ASKED},
        "bubbleId:k1:b2": {"type": 2, "text": "", "toolFormerData": tool},
        "bubbleId:k1:b3": {"type": 2, "rawText": ANSWERED},
    }
    rows = [(key, json.dumps(value)) for key, value in values.items()]
    write_database(place / "globalStorage" / "state.vscdb", tables, {"cursorDiskKV": rows})
    linked = json.dumps({"allComposers": [{"composerId": "k1"}]})
    write_database(
        place / "workspaceStorage" / "w1" / "state.vscdb",
        "CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB);",
        {"ItemTable": [("composer.composerData", linked)]},
    )
    folder = {"folder": "file:///srv/harbour"}
    write_json(place / "workspaceStorage" / "w1" / "workspace.json", folder)


_OPENCODE_PARTS = {
    "p1": ("m1", {"type": "text", "text": ASKED}),
    "p2": (
        "m2",
        {
            "type": "tool",
            "tool": "read",
            "callID": "k1",
            "state": {"input": {"path": "timetable.txt"}, "output": "09:00 ferry"},
        },
    ),
    "p3": ("m2", {"type": "reasoning", "text": "hm"}),
    "p4": ("m2", {"type": "text", "text": ANSWERED}),
    "p5": ("m2", {"type": "step-finish"}),
}
_OPENCODE_MESSAGES = {
    "m1": {"id": "m1", "role": "user", "time": {"created": 1772445600000}},
    "m2": {"id": "m2", "role": "assistant", "time": {"created": 1772445601000}},
}


def _opencode_database(place: Path) -> None:
    write_database(
        place / "opencode.db",
        "CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, title TEXT);"
        "CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);"
        "CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);",
        {
            "session": [("o1", None, "/srv/harbour", "Ferry")],
            "message": [
                (name, "o1", number, json.dumps(data))
                for number, (name, data) in enumerate(_OPENCODE_MESSAGES.items())
            ],
            "part": [
                (name, message, json.dumps(data))
                for name, (message, data) in _OPENCODE_PARTS.items()
            ],
        },
    )


def _opencode_files(place: Path) -> None:
    storage = place / "storage"
    session = {"id": "o1", "directory": "/srv/harbour", "title": "Ferry"}
    write_json(storage / "session" / "global" / "o1.json", session)
    for name, data in _OPENCODE_MESSAGES.items():
        write_json(storage / "message" / "o1" / f"{name}.json", data)
    for name, (message, data) in _OPENCODE_PARTS.items():
        write_json(storage / "part" / message / f"{name}.json", {"id": name, **data})


def _copilot(place: Path) -> None:
    def event(kind: str, own_id: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "id": own_id, "timestamp": "2026-03-02T10:00:00Z", "data": data}

    start = {"path": "timetable.txt"}
    write_lines(
        place / "p1" / "events.jsonl",
        [
            event("session.start", "e0", sessionId="p1", context={"cwd": "/srv/harbour"}),
            event("system.message", "e1", content="You are Copilot"),
            event("user.message", "e2", content=ASKED),
            event("tool.execution_start", "e3", toolCallId="k1", toolName="read", arguments=start),
            event("tool.execution_complete", "e4", toolCallId="k1", result={"content": RESULT[1]}),
            event("tool.execution_start", "e5", toolCallId="k2", toolName="engram-search"),
            event("assistant.message", "e6", content=ANSWERED),
        ],
    )


def _cline(place: Path) -> None:
    """A session of Cline's own directory."""
    write_json(place / "n1" / "n1.json", {"cwd": "/srv/harbour", "metadata": {"title": "Ferry"}})
    content = [{"type": "text", "text": ANSWERED}, {"type": "thinking", "text": "hm"}]
    messages = [
        {"id": "m1", "role": "user", "content": ASKED, "ts": 1772445600000},
        {"id": "m2", "role": "assistant", "content": content, "ts": 1772445601000},
    ]
    write_json(place / "n1" / "n1.messages.json", {"sessionId": "n1", "messages": messages})


def _task(place: Path) -> None:
    """A task in the storage of the editor."""
    text = f"<task>\n{ASKED}\n</task>"
    details = "<environment_details>\nnow\n</environment_details>"
    first = [{"type": "text", "text": text}, {"type": "text", "text": details}]
    call = {"type": "tool_use", "id": "k1", "name": "read", "input": {"path": "timetable.txt"}}
    result = {"type": "tool_result", "tool_use_id": "k1", "content": "09:00 ferry"}
    write_json(
        place / "tasks" / "17" / "api_conversation_history.json",
        [
            {"role": "user", "content": first},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": ANSWERED}]},
        ],
    )
    write_json(
        place / "tasks" / "17" / "history_item.json", {"id": "17", "workspace": "/srv/harbour"}
    )


def _zed(place: Path) -> None:
    use = {"ToolUse": {"id": "k1", "name": "read", "input": {"path": "timetable.txt"}}}
    agent = {
        "content": [{"Thinking": {"text": "hm"}}, use, {"Text": ANSWERED}],
        "tool_results": {"k1": {"content": {"Text": "09:00 ferry"}}},
    }
    asked = {"User": {"content": [{"Text": ASKED}]}}
    newer = {"title": "Ferry", "messages": [asked, {"Agent": agent}, "Resume"]}
    older = {
        "summary": "Older",
        "messages": [
            {"id": 1, "role": "user", "segments": [{"type": "text", "text": ASKED}]},
            {"id": 2, "role": "assistant", "segments": [{"type": "text", "text": ANSWERED}]},
        ],
    }
    packed = zstandard.ZstdCompressor().compress(json.dumps(newer).encode())
    write_database(
        place / "threads.db",
        "CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB,"
        " folder_paths TEXT);",
        {
            "threads": [
                ("z1", "Ferry", "2026-03-02T10:00:00Z", "zstd", packed, "/srv/harbour"),
                ("z2", "Older", "2026-03-01T10:00:00Z", "json", json.dumps(older), "/srv/harbour"),
                ("z3", "Broken", "2026-03-01T10:00:00Z", "zstd", b"no frame", None),
            ]
        },
    )


_GOOSE = [
    ("user", [{"type": "text", "text": ASKED}]),
    (
        "assistant",
        [
            {
                "type": "toolRequest",
                "id": "k1",
                "toolCall": {"value": {"name": "read", "arguments": {"path": "timetable.txt"}}},
            }
        ],
    ),
    (
        "user",
        [
            {
                "type": "toolResponse",
                "id": "k1",
                "toolResult": {"value": [{"type": "text", "text": "09:00 ferry"}]},
            }
        ],
    ),
    ("assistant", [{"type": "thinking"}, {"type": "text", "text": ANSWERED}]),
]


def _goose_database(place: Path) -> None:
    write_database(
        place / "sessions.db",
        "CREATE TABLE sessions (id TEXT, name TEXT, working_dir TEXT);"
        "CREATE TABLE messages (id INTEGER, message_id TEXT, session_id TEXT,"
        " role TEXT, content_json TEXT, created_timestamp INTEGER);",
        {
            "sessions": [("go1", "Ferry", "/srv/harbour")],
            "messages": [
                (number, f"m{number}", "go1", role, json.dumps(content), 1772445600)
                for number, (role, content) in enumerate(_GOOSE)
            ],
        },
    )


def _goose_lines(place: Path) -> None:
    lines = [{"role": role, "created": 1772445600, "content": parts} for role, parts in _GOOSE]
    head = {"description": "Ferry", "working_dir": "/srv/harbour"}
    write_lines(place / "20250724_1.jsonl", [head, *lines])


def _aider(place: Path) -> None:
    text = f"""
# aider chat started at 2026-03-02 10:00:00

> aider v0.86.2
#### {ASKED}

{ANSWERED}

> Tokens: 12 sent

# aider chat started at 2026-03-03 10:00:00

#### {ASKED}
#### Tomorrow too?

Yes.
"""
    (place / ".aider.chat.history.md").write_text(text)


def _antigravity(place: Path) -> None:
    meta = '<ADDITIONAL_METADATA>{"cwd": "/srv/harbour"}</ADDITIONAL_METADATA>'
    write_lines(
        place / "brain" / "b1" / ".system_generated" / "logs" / "transcript.jsonl",
        [
            {"source": "USER_EXPLICIT", "content": f"<USER_REQUEST>{ASKED}{meta}</USER_REQUEST>"},
            {"source": "SYSTEM", "content": "noted"},
            {"source": "MODEL", "content": ANSWERED},
        ],
    )


def _chatgpt(place: Path) -> None:
    def node(parent: str | None, role: str, text: str, **metadata: Any) -> dict[str, Any]:
        content = {"content_type": "text", "parts": [text]}
        message = {
            "author": {"role": role},
            "create_time": 1772445600.5,
            "content": content,
            "metadata": metadata,
        }
        return {"parent": parent, "message": message}

    mapping = {
        "root": {"parent": None, "message": None},
        "hidden": node("root", "user", "be brief", is_visually_hidden_from_conversation=True),
        "asked": node("hidden", "user", ASKED),
        "first": node("asked", "assistant", "At ten, I think."),
        "second": node("asked", "assistant", ANSWERED, model_slug="gpt-5"),
    }
    chat = {"id": "h1", "title": "Ferry", "current_node": "second", "mapping": mapping}
    write_zip(place / "export.zip", {"conversations.json": [chat], "user.json": {}})


def _claude_ai(place: Path) -> None:
    content = [{"type": "text", "text": ANSWERED}]
    older = {"uuid": "m1", "sender": "human", "text": ASKED, "created_at": "2026-03-02T10:00:00Z"}
    chat = {
        "uuid": "w1",
        "name": "Ferry",
        "chat_messages": [
            {**older, "attachments": [{"file_name": "a.txt"}]},
            {"uuid": "m2", "sender": "assistant", "text": ANSWERED, "content": content},
        ],
    }
    write_json(place / "conversations.json", [chat])


def _slack(place: Path) -> None:
    def message(ts: str, user: str, text: str, **fields: Any) -> dict[str, Any]:
        return {"type": "message", "ts": ts, "user": user, "text": text, **fields}

    thread = {"thread_ts": "1772445600.000100"}
    write_zip(
        place / "slack.zip",
        {
            "users.json": [
                {"id": "U1", "name": "ada", "profile": {"display_name": "Ada"}},
                {"id": "U2", "name": "bo", "profile": {"real_name": "Bo"}},
            ],
            "channels.json": [],
            "harbour/2026-03-02.json": [
                message("1772445600.000100", "U1", f"<@U2> {ASKED}", **thread),
                message("1772445601.000200", "U2", "hello &amp; welcome"),
                message("1772445602.000300", "U1", "joined", subtype="channel_join"),
            ],
            "harbour/2026-03-03.json": [message("1772545600.000100", "U2", ANSWERED, **thread)],
        },
    )


def _plain(place: Path) -> None:
    write_lines(
        place / "chat.jsonl",
        [
            {"role": "human", "content": ASKED, "timestamp": "2026-03-02T10:00:00Z"},
            {"role": "model", "content": [{"text": ANSWERED}]},
            {"role": "nobody", "content": "x"},
        ],
    )


_ROWS = {
    "conversations": [{"id": "cf1", "title": "Ferry", "tags": '["travel"]'}],
    "messages": [
        {"id": "r1", "role": "user", "content": ASKED, "content_encoding": None},
        {
            "id": "r2",
            "role": "assistant",
            "content": base64.b64encode(gzip.compress(ANSWERED.encode())).decode(),
            "content_encoding": "gzip+base64",
        },
        {"id": "r3", "role": "user", "content": "Thanks.", "content_encoding": "raw"},
        {"id": "r4", "role": "user", "content": "?", "content_encoding": "lz4"},
    ],
}
_CLOUDFLARE: list[Said] = [[*TALK, ("user", "Thanks.")]]


def _cloudflare_json(place: Path) -> None:
    messages = [{**row, "conversation_id": "cf1"} for row in _ROWS["messages"]]
    answers = [{"results": _ROWS["conversations"]}, {"results": messages, "success": True}]
    write_json(place / "d1.json", answers)


def _cloudflare_sql(place: Path) -> None:
    def quoted(value: object) -> str:
        return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"

    lines = [
        "PRAGMA defer_foreign_keys=TRUE;",
        "CREATE TABLE conversations (id TEXT PRIMARY KEY, title TEXT, tags TEXT);",
        "CREATE TABLE messages (id TEXT, conversation_id TEXT, role TEXT, content TEXT,",
        " content_encoding TEXT, sequence INTEGER);",
        f"ATTACH DATABASE '{place / 'planted.db'}' AS planted;",
    ]
    for row in _ROWS["conversations"]:
        values = ",".join(map(quoted, row.values()))
        lines.append(f'INSERT INTO "conversations" VALUES({values});')
    for number, row in enumerate(_ROWS["messages"]):
        values = (row["id"], "cf1", row["role"], row["content"], row["content_encoding"])
        lines.append(f"INSERT INTO messages VALUES({','.join(map(quoted, values))},{number});")
    (place / "d1.sql").write_text("\n".join(lines) + "\n")


SAMPLES: Mapping[str, Sample] = {
    "codex, first generation": Sample(
        _codex_first,
        [[TALK[0], CALL, RESULT, TALK[1]]],
        {"not a message": 1, "harness text": 1, "thoughts": 1},
        None,
    ),
    "codex, second generation": Sample(
        _codex_second, [[*TALK, TALK[0]]], {"not a message": 1, "harness text": 1}
    ),
    "codex, third generation": Sample(
        _codex_third, [TALK], {"not a message": 3, "harness text": 1, "Engram's own tools": 2}
    ),
    "gemini, lines": Sample(
        _gemini_lines,
        [[TALK[0], CALL, RESULT, TALK[1]]],
        {"harness text": 1, "taken back": 1, "thoughts": 1, "notices": 1},
    ),
    "gemini, document": Sample(_gemini_document, [TALK], {}, None),
    "cursor, lines": Sample(_cursor_lines, [TALK], {"not a message": 1}, None),
    "cursor, database": Sample(
        _cursor_database, [[TALK[0], CALL, RESULT, TALK[1]]], {"no longer there": 1}
    ),
    "opencode, database": Sample(
        _opencode_database,
        [[TALK[0], CALL, RESULT, TALK[1]]],
        {"thoughts": 1, "not a message": 1},
    ),
    "opencode, files": Sample(
        _opencode_files, [[TALK[0], CALL, RESULT, TALK[1]]], {"thoughts": 1, "not a message": 1}
    ),
    "copilot": Sample(
        _copilot,
        [[TALK[0], CALL, RESULT, TALK[1]]],
        {"not a message": 1, "Engram's own tools": 1},
    ),
    "cline": Sample(_cline, [TALK], {"thoughts": 1}),
    "cline, task": Sample(_task, [[TALK[0], CALL, RESULT, TALK[1]]], {"harness text": 1}),
    "roo": Sample(_task, [[TALK[0], CALL, RESULT, TALK[1]]], {"harness text": 1}),
    "zed": Sample(
        _zed,
        [[TALK[0], CALL, RESULT, TALK[1]], TALK],
        {"thoughts": 1, "not a message": 1, "unreadable thread": 1},
    ),
    "goose, database": Sample(_goose_database, [[TALK[0], CALL, RESULT, TALK[1]]], {"thoughts": 1}),
    "goose, lines": Sample(_goose_lines, [[TALK[0], CALL, RESULT, TALK[1]]], {"thoughts": 1}),
    "aider": Sample(
        _aider,
        [TALK, [("user", f"{ASKED}\nTomorrow too?"), ("assistant", "Yes.")]],
        {"aider's notes": 2},
        None,
    ),
    "antigravity": Sample(_antigravity, [TALK], {"not a message": 1}),
    "chatgpt": Sample(_chatgpt, [TALK, [("assistant", "At ten, I think.")]], {"hidden": 1}, None),
    "claude-ai": Sample(_claude_ai, [TALK], {"images and files": 1}, None),
    "slack": Sample(
        _slack,
        [[("user", "hello & welcome")], [("user", f"@Bo {ASKED}"), ("user", ANSWERED)]],
        {"not a message": 1},
        None,
    ),
    "jsonl": Sample(_plain, [TALK], {"no role or no content": 1}, None),
    "cloudflare, JSON": Sample(_cloudflare_json, _CLOUDFLARE, {"unknown encoding lz4": 1}, None),
    "cloudflare, SQL": Sample(
        _cloudflare_sql,
        _CLOUDFLARE,
        {"unknown encoding lz4": 1, "statements of the dump": 2},
        None,
    ),
}
"""By the name of the source, and the form of the files if it has several."""

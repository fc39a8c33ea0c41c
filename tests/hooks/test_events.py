"""Every client gets the answer that it expects, and none goes on because of us."""

from __future__ import annotations

from typing import Any

import pytest

from engram.hooks.events import CLIENTS, EVENTS, answer_to, client_of, meaning_of, record_of

BLOCK = "<memory_context>"


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("SessionStart", "start"),
        ("UserPromptSubmit", "prompt"),
        ("BeforeAgent", "prompt"),
        ("beforeSubmitPrompt", "prompt"),
        ("Stop", "turn"),
        ("SubagentStop", "turn"),
        ("AfterAgent", "turn"),
        ("PreCompact", "compact"),
        ("PreCompress", "compact"),
        ("sessionEnd", "end"),
        ("prompt", "prompt"),
        ("PostToolUse", None),
    ],
)
def test_clients_names_of_events_are_understood(name: str, event: str | None) -> None:
    assert meaning_of(name) == event


@pytest.mark.parametrize(
    ("payload", "client"),
    [
        ({"transcript_path": "/h/.claude/projects/-x/1.jsonl"}, "claude"),
        ({"transcript_path": "/h/.codex/sessions/2026/05/08/rollout-1.jsonl"}, "codex"),
        ({"turn_id": "1", "transcript_path": None}, "codex"),
        ({"hook_event_name": "BeforeAgent"}, "gemini"),
        ({"transcript_path": "/h/.gemini/tmp/1/chats/s.json"}, "gemini"),
        ({"cursor_version": "3", "transcript_path": "/h/.claude/projects/-x/1.jsonl"}, "cursor"),
        ({}, None),
    ],
)
def test_a_client_is_known_by_what_it_sends(payload: dict[str, Any], client: str | None) -> None:
    assert client_of(payload) == client


@pytest.mark.parametrize("client", CLIENTS)
def test_only_starts_and_prompts_take_a_context(client: str) -> None:
    for event in EVENTS:
        is_told = BLOCK in str(answer_to(event, client, {}, BLOCK))

        assert is_told == (event in {"start", "prompt"})


def test_most_clients_are_told_by_their_own_name_of_the_event() -> None:
    payload = {"hook_event_name": "BeforeAgent"}

    assert answer_to("prompt", "gemini", payload, BLOCK) == {
        "hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": BLOCK}
    }
    assert answer_to("prompt", "claude", {}, "") == {}


def test_cursor_is_told_in_its_own_fields() -> None:
    assert answer_to("prompt", "cursor", {}, BLOCK) == {
        "continue": True,
        "additional_context": BLOCK,
    }
    assert answer_to("start", "cursor", {}, "") == {}
    assert answer_to("turn", "cursor", {}, "") == {}


def test_a_payload_without_a_transcript_gives_no_record() -> None:
    assert record_of("turn", "claude", {"session_id": "s"}, at=1) is None
    assert record_of("turn", "claude", {"transcript_path": "/x", "session_id": ["s"]}, at=1) is None


def test_camel_case_and_roots_are_read_too() -> None:
    payload = {"conversation_id": "s", "transcriptPath": "/x", "workspace_roots": ["/repo"]}

    record = record_of("turn", "cursor", payload, at=1)

    assert record == {
        "client": "cursor",
        "event": "turn",
        "session": "s",
        "transcript": "/x",
        "cwd": "/repo",
        "at": 1,
    }

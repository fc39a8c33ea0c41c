"""What an event of a client means, and the answer that it expects.

Clients run each other's hooks: Cursor and VS Code read the settings of Claude Code. So the client is
recognised by what it sends, and the event by the name that it uses itself.
"""

from __future__ import annotations

from engram import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Payload = dict[str, Any]

EVENTS = {
    "start": ("sessionstart",),
    "prompt": ("userpromptsubmit", "userpromptsubmitted", "beforeagent", "beforesubmitprompt"),
    "turn": ("stop", "subagentstop", "afteragent", "agentstop"),
    "compact": ("precompact", "precompress"),
    "end": ("sessionend",),
}
"""The events of a session, and what clients call them."""

CLIENTS = ("claude", "codex", "gemini", "cursor")
CAPTURING = frozenset({"turn", "compact", "end"})
"""Events after which a transcript has something new."""

_MEANINGS = {name: event for event, names in EVENTS.items() for name in (event, *names)}
_NAMES = {"start": "SessionStart", "prompt": "UserPromptSubmit"}
"""What most clients call the events that take a context."""

_OF_GEMINI = frozenset({"beforeagent", "afteragent", "precompress"})
_PATH_CHARACTERS_MAX = 4_096
_ID_CHARACTERS_MAX = 1_024


def meaning_of(name: str) -> str | None:
    """Return the event that a client calls so; None if it is no event of ours."""
    return _MEANINGS.get(name.lower())


def client_of(payload: Payload) -> str | None:
    """Return the client that sent a payload, if that can be told from it."""
    name = str(payload.get("hook_event_name", "")).lower()
    transcript = text_of(payload, "transcript_path", "transcriptPath")
    if "cursor_version" in payload or "/.cursor/" in transcript:
        return "cursor"
    if name in _OF_GEMINI or "/.gemini/" in transcript:
        return "gemini"
    if "turn_id" in payload or last_part(transcript).startswith("rollout-"):
        return "codex"
    return "claude" if "/projects/" in transcript else None


def record_of(event: str, client: str, payload: Payload, *, at: int) -> dict[str, str | int] | None:
    """Return what the engine needs to import a session; None if the payload does not tell it."""
    transcript = text_of(payload, "transcript_path", "transcriptPath")
    session = session_of(payload)
    if not transcript or not session or len(transcript) > _PATH_CHARACTERS_MAX:
        return None
    record = {
        "client": client,
        "event": event,
        "session": session,
        "transcript": transcript,
        "cwd": directory_of(payload),
        "at": at,
    }
    agent = text_of(payload, "agent_transcript_path")
    return {**record, "agent_transcript": agent} if agent else record


def call_of(event: str, client: str, payload: Payload) -> dict[str, str]:
    """Return what the engine is asked at an event that takes a context, or that ends one."""
    return {
        "event": event,
        "client": client,
        "session": session_of(payload),
        "cwd": directory_of(payload),
        "prompt": text_of(payload, "prompt")[: limits.HOOK_PROMPT_CHARACTERS_MAX],
        "source": text_of(payload, "source"),
        "trigger": text_of(payload, "trigger"),
    }


def session_of(payload: Payload) -> str:
    """Return the client's id of the session."""
    return text_of(payload, "session_id", "sessionId", "conversation_id")[:_ID_CHARACTERS_MAX]


def directory_of(payload: Payload) -> str:
    """Return the directory in which the agent works."""
    roots: Any = payload.get("workspace_roots")
    first = text_of({"root": roots[0]}, "root") if isinstance(roots, list) and roots else ""
    given = text_of(payload, "cwd") or first
    return given if len(given) <= _PATH_CHARACTERS_MAX else ""


def answer_to(event: str, client: str, payload: Payload, context: str) -> Payload:
    """Return what a client expects on stdout; an empty context adds nothing to its prompt."""
    # A context at any other event would make some agents go on with their turn.
    is_told = bool(context) and event in _NAMES
    if client == "cursor":
        answer: Payload = {"continue": True} if event == "prompt" else {}
        return {**answer, "additional_context": context} if is_told else answer
    if not is_told:
        return {}
    name = text_of(payload, "hook_event_name") or _NAMES[event]
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}


def text_of(payload: Payload, *names: str) -> str:
    """Return the first of some fields that is a text, or an empty one."""
    found = (payload.get(name) for name in names)
    return next((each for each in found if isinstance(each, str) and each), "")


def last_part(path: str) -> str:
    """Return the last part of a path."""
    return path.replace("\\", "/").rpartition("/")[2]

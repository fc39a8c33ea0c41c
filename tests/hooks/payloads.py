"""What clients send to hooks, transcripts they write, and hooks as they run them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.mcp.connecting import engram_environment

PATIENCE_S = 60.0


def said(session: str, number: int, role: str, text: str, *, directory: Path) -> dict[str, Any]:
    """Return a line of a transcript of Claude Code."""
    return {
        "type": role,
        "uuid": f"{session}-{number}",
        "sessionId": session,
        "timestamp": f"2026-05-08T10:{number:02}:00Z",
        "cwd": str(directory),
        "message": {"role": role, "content": text},
    }


def write_transcript(path: Path, *lines: Mapping[str, Any]) -> Path:
    """Append lines to a transcript."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def payload(
    event: str, session: str, *, transcript: Path, directory: Path, **more: str
) -> dict[str, Any]:
    """Return what Claude Code sends at an event."""
    return {
        "hook_event_name": event,
        "session_id": session,
        "transcript_path": str(transcript),
        "cwd": str(directory),
        **more,
    }


def pause_starts(home: Path) -> None:
    """Let hooks believe that an engine was just started."""
    (home / "hooks").mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "hooks" / "attempt").touch()


def start_hook(home: Path, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
    """Start a hook as a client does."""
    return subprocess.Popen(
        [sys.executable, "-m", "engram", "hook", *arguments],
        env=engram_environment({"HOME": str(home), "EMBEDDER": "none", **settings}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run_hook(home: Path, *arguments: str, given: bytes, **settings: str) -> dict[str, Any]:
    """Return what a hook answers; it always ends well, and with JSON."""
    hook = start_hook(home, *arguments, **settings)
    answer, _ = hook.communicate(given, timeout=PATIENCE_S)
    assert hook.returncode == 0
    return json.loads(answer)

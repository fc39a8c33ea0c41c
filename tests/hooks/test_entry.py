"""A hook as clients run it: it ends well with JSON, whatever it meets."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engram.model.reminder import HOOK_TOOL
from tests.engine.processes import connected, engines_of, engram, wait_until
from tests.hooks.payloads import (
    PATIENCE_S,
    pause_starts,
    payload,
    run_hook,
    said,
    start_hook,
    write_transcript,
)
from tests.mcp.connecting import engram_environment
from tests.storage.processes import PROJECT

HEAVY = {
    "asyncio",
    "dataclasses",
    "msgspec",
    "numpy",
    "pathlib",
    "pydantic",
    "subprocess",
    "typer",
    "typing",
}
QUESTION = "Which queue does the billing worker use?"
ANSWER = "The billing worker uses the outbox table as its queue."


def stop_payload(tmp_path: Path, **more: Any) -> bytes:
    given = payload("Stop", "s1", transcript=tmp_path / "s1.jsonl", directory=tmp_path)
    return json.dumps({**given, **more}).encode()


def spool_of(home: Path) -> bytes:
    path = home / "hooks" / "spool"
    return path.read_bytes() if path.exists() else b""


def test_a_turn_leaves_one_record(tmp_path: Path) -> None:
    pause_starts(tmp_path / "store")

    answer = run_hook(tmp_path / "store", "turn", given=stop_payload(tmp_path))

    (record,) = map(json.loads, spool_of(tmp_path / "store").split())
    assert answer == {}
    assert (record["client"], record["session"]) == ("claude", "s1")


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"not json",
        b"\x00\xff" * 5_000,
        b"[]",
        b'{"session_id": 7, "transcript_path": {}}',
        b'{"a": "' + b"x" * 1_500_000,
    ],
)
def test_a_payload_that_says_nothing_leaves_nothing(tmp_path: Path, given: bytes) -> None:
    pause_starts(tmp_path / "store")
    hook = start_hook(tmp_path / "store", "turn", "--client", "claude")
    try:
        answer, _ = hook.communicate(given, timeout=PATIENCE_S)
    except BrokenPipeError:
        answer = b"{}"  # It did not read on, and may have answered already.

    assert hook.wait(PATIENCE_S) == 0
    assert json.loads(answer) == {}
    assert spool_of(tmp_path / "store") == b""


def test_a_client_that_keeps_its_stream_open_is_answered(tmp_path: Path) -> None:
    pause_starts(tmp_path / "store")
    hook = start_hook(tmp_path / "store", "Stop")
    assert hook.stdin is not None
    assert hook.stdout is not None
    hook.stdin.write(stop_payload(tmp_path))
    hook.stdin.flush()

    answer = hook.stdout.read()

    assert hook.wait(PATIENCE_S) == 0
    assert json.loads(answer) == {}
    assert spool_of(tmp_path / "store")
    hook.communicate()


@pytest.mark.parametrize(
    "settings", [{"HOOKS": "0"}, {"HOOKS": "off"}, {"URL": "https://memory.example"}]
)
def test_children_of_ours_and_clients_of_a_server_leave_nothing(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    assert run_hook(tmp_path / "store", "turn", given=stop_payload(tmp_path), **settings) == {}

    assert not (tmp_path / "store").exists()


def test_an_event_of_another_time_is_answered_with_nothing(tmp_path: Path) -> None:
    given = stop_payload(tmp_path, hook_event_name="AfterLunch")

    assert run_hook(tmp_path / "store", "AfterLunch", given=given) == {}
    assert not (tmp_path / "store").exists()


def test_a_store_that_cannot_be_written_does_not_fail_the_agent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for home in (Path("/proc/store"), tmp_path / "file", tmp_path / "file" / "store"):
        assert run_hook(home, "turn", given=stop_payload(tmp_path)) == {}


def test_a_full_disk_does_not_fail_the_agent(tmp_path: Path) -> None:
    pause_starts(tmp_path / "store")
    (tmp_path / "store" / "hooks" / "spool").symlink_to("/dev/full")

    hook = start_hook(tmp_path / "store", "turn")
    answer, log = hook.communicate(stop_payload(tmp_path), timeout=PATIENCE_S)

    assert (hook.returncode, json.loads(answer)) == (0, {})
    assert b"No space left" in log


def test_a_hook_waits_for_no_large_library(tmp_path: Path) -> None:
    pause_starts(tmp_path / "store")
    program = (
        "import sys; sys.argv = ['engram', 'hook', 'turn']; from engram.cli import main; main();"
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"sys = __import__('sys'); sys.path.insert(0, {str(PROJECT / 'src')!r}); {program}",
        ],
        input=stop_payload(tmp_path),
        env=engram_environment({"HOME": str(tmp_path / "store")}),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert not HEAVY & {*ended.stderr.decode().split()}
    assert spool_of(tmp_path / "store")


@pytest.fixture
def session(tmp_path: Path) -> Generator[EngineSession]:
    """Yield sessions on a store whose engines are gone after the test."""
    yield EngineSession(tmp_path)
    kill(engines_of(tmp_path))


class EngineSession:
    """Hooks of Claude Code, and the engine that they start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.home = directory / "store"
        self._transcript = directory / ".claude" / "projects" / "-w" / "s1.jsonl"

    def say(self, number: int, role: str, text: str) -> None:
        write_transcript(
            self._transcript, said("s1", number, role, text, directory=self._directory)
        )

    def hook(self, event: str, session: str = "s1", **more: str) -> dict[str, Any]:
        given = payload(
            event, session, transcript=self._transcript, directory=self._directory, **more
        )
        return run_hook(self.home, event, given=json.dumps(given).encode(), ENGINE_IDLE="60")

    def told(self, prompt: str, session: str) -> str:
        """Return what a session is told with a prompt; who is late on a busy machine asks again."""
        found = list[dict[str, Any]]()
        wait_until(
            lambda: (
                found.append(answer)
                if (answer := self.hook("UserPromptSubmit", session, prompt=prompt))
                else found
            )
        )
        return found[0]["hookSpecificOutput"]["additionalContext"]

    def capture(self) -> None:
        """End a turn, and wait for an engine that has stored it."""
        self.hook("Stop")
        wait_until(lambda: self.is_drained and engines_of(self._directory))

    @property
    def is_drained(self) -> bool:
        names = ("spool", "spool.draining")
        return not any((self.home / "hooks" / name).exists() for name in names)

    @property
    def engine(self) -> psutil.Process:
        (found,) = engines_of(self._directory)
        return found


def test_sessions_are_captured_and_reminded_by_an_engine_that_hooks_start(
    session: EngineSession,
) -> None:
    session.say(1, "user", "What queue shall the billing worker use?")
    session.say(2, "assistant", ANSWER)

    session.capture()

    assert ANSWER in session.told(QUESTION, "s2")


def test_a_client_that_calls_its_server_with_a_prompt_is_told_what_the_command_would_say(
    session: EngineSession, tmp_path: Path
) -> None:
    session.say(1, "assistant", ANSWER)
    session.capture()
    fields = {"session_id": "s2", "cwd": str(tmp_path), "prompt": QUESTION}
    asked = {"command": "engram hook prompt", **fields}

    with connected(session.home) as bridge:
        listed = bridge.ask({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
        # Whoever is late is told nothing, and a busy machine is late.
        told = "{}"
        while told == "{}":
            told = bridge.call(HOOK_TOOL, **asked)
        again = bridge.call(HOOK_TOOL, **asked)
        other = bridge.call(HOOK_TOOL, **{**asked, "command": "engram hook turn"})
    with connected(session.home, HOOKS="off") as bridge:
        unwanted = bridge.call(HOOK_TOOL, **{**asked, "session_id": "s3"})

    answer = json.loads(told)["hookSpecificOutput"]
    assert answer["hookEventName"] == "UserPromptSubmit"
    assert ANSWER in answer["additionalContext"]
    assert again == other == unwanted == "{}"
    assert HOOK_TOOL not in [tool["name"] for tool in listed["result"]["tools"]]


def test_after_an_import_where_hooks_are_in_use_an_engine_is_ready(
    session: EngineSession, tmp_path: Path
) -> None:
    session.say(1, "assistant", ANSWER)
    (session.home / "hooks").mkdir(parents=True)

    report = engram(session.home, "import", "claude", str(tmp_path / ".claude"), "--json")
    wait_until(lambda: engines_of(tmp_path))

    assert report["sources"][0]["stored"] == 1
    assert ANSWER in session.told(QUESTION, "s2")


def test_an_engine_that_hangs_gives_silence_and_what_was_not_told_comes_later(
    session: EngineSession,
) -> None:
    session.say(1, "assistant", ANSWER)
    session.capture()
    engine = session.engine
    engine.suspend()
    try:
        # Each ends although nothing answers.
        silence = [
            session.hook("SessionStart", "s2", source="startup"),
            session.hook("UserPromptSubmit", "s2", prompt=QUESTION),
            session.hook("PreCompact", "s2"),
            session.hook("Stop", "s2"),
        ]
    finally:
        engine.resume()

    assert silence == [{}, {}, {}, {}]
    assert ANSWER in session.told(QUESTION, "s2")


def test_an_engine_that_is_told_to_stop_first_imports_what_waits(session: EngineSession) -> None:
    session.say(1, "user", "first")
    session.capture()
    engine = session.engine
    engine.suspend()
    session.say(2, "assistant", "second")
    session.hook("Stop")
    assert not session.is_drained

    engine.send_signal(signal.SIGTERM)
    engine.resume()
    wait_until(lambda: not engine.is_running())

    assert session.is_drained
    assert conversation_of(session.home)["message_count"] == 2


def test_an_engine_that_is_killed_in_the_middle_loses_and_repeats_nothing(tmp_path: Path) -> None:
    home = tmp_path / "store"
    transcript = tmp_path / ".claude" / "projects" / "-w" / "s1.jsonl"
    settings = {"ENGINE_IDLE": "60"}
    given = json.dumps(payload("Stop", "s1", transcript=transcript, directory=tmp_path)).encode()
    try:
        for turn in range(2):
            lines = [
                said("s1", turn * 20 + each, "user", f"word {turn} {each}", directory=tmp_path)
                for each in range(20)
            ]
            write_transcript(transcript, *lines)
            run_hook(home, "turn", given=given, **settings)
            wait_until(lambda: (home / "hooks" / "spool.draining").exists() or not spool_of(home))
            kill(engines_of(tmp_path))
            (home / "hooks" / "attempt").unlink()
        run_hook(home, "end", given=given, **settings)
        wait_until(lambda: not any((home / "hooks").glob("spool*g")) and not spool_of(home))

        assert conversation_of(home)["message_count"] == 40
    finally:
        kill(engines_of(tmp_path))


def conversation_of(home: Path) -> dict[str, Any]:
    """Return the only conversation of a store."""
    (found,) = engram(home, "conversations", "list", "--json")["conversations"]
    return found


def kill(engines: list[psutil.Process]) -> None:
    for engine in engines:
        with contextlib.suppress(psutil.NoSuchProcess):
            engine.kill()
        wait_until(lambda engine=engine: not engine.is_running())

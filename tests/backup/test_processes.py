"""Backups of a store that others write to, and backups and restores that are killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import anyio

from engram.clock import SystemClock
from engram.model.ids import ConversationId, OrganizationId
from tests.backup.programs.write_steadily import MESSAGES
from tests.backup.stores import Backups, Conversation, faults, texts_of
from tests.promises import promise
from tests.storage.processes import PROJECT

WRITERS = 2
CALLS = 15
"""Before the backup, and again after it."""
STRIDE = 11
"""Of the operations at which processes are killed; 1 takes them all."""


class Writer:
    """A process that writes, and what it has said of its calls."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        organization_id, conversation_id = self._lines.readline().split()
        self.conversation: Conversation = (
            OrganizationId(organization_id),
            ConversationId(conversation_id),
        )
        self.calls: dict[int, tuple[datetime, datetime]] = {}

    def follow(self, calls: int) -> None:
        """Wait for so many more calls."""
        for _ in range(calls):
            number, *times = self._lines.readline().split()
            began, ended = map(datetime.fromisoformat, times)
            self.calls[int(number)] = began, ended


@contextmanager
def writing(home: Path, name: str) -> Generator[Writer]:
    command = [sys.executable, "-m", "tests.backup.programs.write_steadily", str(home), name]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Writer(process)
        finally:
            process.kill()


@promise("backups")
async def test_a_backup_under_load_has_what_was_acknowledged_and_nothing_later(
    tmp_path: Path,
) -> None:
    home = tmp_path / "store"
    with ExitStack() as stack:
        writers = [stack.enter_context(writing(home, f"w{each}")) for each in range(WRITERS)]
        for writer in writers:
            writer.follow(CALLS)
        backups = Backups(home, tmp_path / "backups")
        instant = backups.make(clock=SystemClock()).manifest.instant
        for writer in writers:
            writer.follow(CALLS)

    backups.restore(tmp_path / "restored")

    assert await faults(tmp_path / "restored") == []
    for number, writer in enumerate(writers):
        first, *texts = await texts_of(tmp_path / "restored", *writer.conversation)
        stored = [int(text.split()[1]) for text in texts[::MESSAGES]]
        assert first == f"of w{number}"
        assert texts == [f"w{number} {call} {part}" for call in stored for part in range(MESSAGES)]
        assert stored == list(range(len(stored)))
        for call, (began, ended) in writer.calls.items():
            assert call in stored or ended > instant
            assert call not in stored or began < instant


@promise("backups")
async def test_killed_backups_and_restores_leave_nothing_half_done(tmp_path: Path) -> None:
    done = await anyio.run_process(
        [sys.executable, "-m", "tests.backup.programs.killed", str(tmp_path), str(STRIDE)],
        cwd=PROJECT,
        stderr=None,
    )

    assert int(done.stdout) > 10

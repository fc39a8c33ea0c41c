"""Make and restore backups in processes that are killed at their n-th operation on a file.

    python -m tests.backup.programs.killed DIRECTORY STRIDE

n grows by the stride until the work is done before it. After each kill every backup that is listed must be
whole, and half a restore must not look like a store; the same call again must then succeed. Prints how
many were killed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from engram.backup.catalog import CONTROL_NAME, read_catalog
from engram.backup.restoring import MARKER
from engram.model.backup import Manifest
from tests.backup.stores import MINUTE, Backups, Conversation, begin_in_new, opened, say

_EVENTS = ("open", "os.", "shutil.", "sqlite3.", "fcntl.")
"""The audit events that come before an operation on a file, by how their names begin."""


def main(directory: Path, stride: int) -> None:
    backups = Backups(directory / "store", directory / "backups")
    conversation = asyncio.run(fill(backups.home))
    killed = kill_making(backups, directory / "scratch", stride=stride)
    asyncio.run(write(backups.home, conversation, "once more"))
    killed += kill_making(backups, directory / "scratch", stride=stride)
    killed += kill_restoring(backups, directory / "restored", stride=stride)
    print(killed)  # noqa: T201 for the test


async def fill(home: Path) -> Conversation:
    async with opened(home) as store:
        await begin_in_new(store, "quiet")
        return await begin_in_new(store, "busy")


async def write(home: Path, conversation: Conversation, text: str) -> None:
    async with opened(home) as store:
        await say(store, conversation, text)


def kill_making(backups: Backups, scratch: Path, *, stride: int) -> int:
    """Kill the making of backups: those before stay, and the new one is there as a whole or not at all."""
    for killed, at in enumerate(itertools.count(1, stride)):
        before = restore_each(backups, scratch)
        was_killed = run_killed(backups.make, at=at)
        backups.clock.advance(MINUTE)  # the clock of the killed process was another one
        after = restore_each(backups, scratch)
        assert after[: len(before)] == before
        assert len(after) - len(before) in ({0, 1} if was_killed else {1})
        if not was_killed:
            return killed
    raise AssertionError("there is always a last operation")


def kill_restoring(backups: Backups, target: Path, *, stride: int) -> int:
    """Kill restores: without its last file it is no store, and it is resumed."""
    manifest = read_catalog(backups.destination).find(None)
    for killed, at in enumerate(itertools.count(1, stride)):
        was_killed = run_killed(lambda: backups.restore(target), at=at)
        if (target / CONTROL_NAME).exists():
            check_files(target, manifest)
        if not (target / CONTROL_NAME).exists() or (target / MARKER).exists():
            backups.restore(target)
        check_files(target, manifest)
        assert not (target / MARKER).exists()
        shutil.rmtree(target)
        if not was_killed:
            return killed
    raise AssertionError("there is always a last operation")


def run_killed(work: Callable[[], object], *, at: int) -> bool:
    """Do the work in a process that is killed at an operation; return False if it ended before."""
    child = os.fork()
    if not child:
        count = itertools.count(1)

        def hook(event: str, _: object) -> None:
            if event.startswith(_EVENTS) and next(count) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def restore_each(backups: Backups, scratch: Path) -> list[str]:
    """Restore every backup that is listed, and return their ids."""
    catalog = read_catalog(backups.destination)
    assert not catalog.damaged
    for manifest in catalog.manifests:
        backups.restore(scratch, as_of=manifest.instant)
        check_files(scratch, manifest)
        shutil.rmtree(scratch)
    return [manifest.backup_id for manifest in catalog.manifests]


def check_files(directory: Path, manifest: Manifest) -> None:
    for file in manifest.files:
        assert sha256((directory / file.name).read_bytes()).hexdigest() == file.sha256
        assert (directory / file.name).with_suffix(".mark").exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

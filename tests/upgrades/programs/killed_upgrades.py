"""Applies each migration to a file again and again, and is killed one step later each time.

Arguments: the file, its kind, a directory to work in. Prints the versions of the schema with how
many upgrades from each were killed, and leaves every file as it was then: those that were killed
as `<version>/<step>/<name>`, and the one that was not under the step after the last.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from engram.storage.migrations import Migration
from engram.storage.sqlite.connection import open_writer
from engram.storage.sqlite.migrate import load_migrations, migrate, version_of

STEPS = frozenset({"open", "os.rename", "os.remove", "sqlite3.connect"})
"""What counts as a step, beside each statement: what is done to files."""


class Fuse:
    """Kills this process at its n-th step."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def burn(self, *_: Any) -> None:
        """Count a step."""
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, event: str, _: tuple[Any, ...]) -> None:
        """Count what is done to files."""
        if event in STEPS:
            self.burn()


def upgrade(path: Path, migrations: Sequence[Migration], steps: int) -> None:
    """Upgrade a file, up to a step."""
    fuse = Fuse(steps)
    connection = open_writer(path)
    # Nobody cuts the power, and syncs would take most of the time.
    connection.execute("PRAGMA synchronous = OFF")
    connection.set_trace_callback(fuse.burn)
    sys.addaudithook(fuse.watch)
    migrate(connection, migrations, path=path)
    connection.set_trace_callback(None)
    connection.close()


def is_killed(path: Path, migrations: Sequence[Migration], steps: int) -> bool:
    """Return True if an upgrade was killed; False if it came to its end before."""
    child = os.fork()
    if not child:
        upgrade(path, migrations, steps)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def kill_all(original: Path, migrations: Sequence[Migration], folder: Path) -> tuple[int, Path]:
    """Kill the last of the migrations at every step; return how many there are, and the file after it."""
    steps = 0
    while True:
        steps += 1
        place = folder / str(steps)
        place.mkdir(parents=True)
        path = Path(shutil.copy(original, place))
        if not is_killed(path, migrations, steps):
            return steps - 1, path


def main() -> None:
    """Kill every migration at every step."""
    path, work = Path(sys.argv[1]), Path(sys.argv[3])
    migrations = load_migrations("organization" if sys.argv[2] == "organization" else "control")
    with closing(open_writer(path)) as connection:
        first = version_of(connection)
    killed: dict[int, int] = {}
    for version in range(first, len(migrations)):
        folder = work / str(version)
        killed[version], path = kill_all(path, migrations[: version + 1], folder)
    sys.stdout.write(json.dumps(killed))


if __name__ == "__main__":
    main()

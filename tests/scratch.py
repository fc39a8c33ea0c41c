"""Where tests keep their files: in memory where there is room, for none outlives its test."""

from __future__ import annotations

import os
import sys
import tempfile

_MEMORY = "/dev/shm"  # noqa: S108 below it, `tempfile` makes directories of its own
_ENOUGH_BYTES = 4 * 2**30
"""Several times what the tests that run at once need, with their PostgreSQL servers."""


def keep_files_in_memory() -> None:
    """Have this process and those it starts make temporary files in memory.

    A database of PostgreSQL is 600 files; most disks take longer to make them than its test takes.
    No test cuts the power, so none sees the difference. Whoever sets TMPDIR chooses another place.
    """
    if "TMPDIR" not in os.environ and _has_room():  # noqa: TID251 - of the test run
        os.environ["TMPDIR"] = _MEMORY  # noqa: TID251 for the processes that tests start
        tempfile.tempdir = None


def _has_room() -> bool:
    if sys.platform != "linux" or not os.access(_MEMORY, os.W_OK):
        return False
    found = os.statvfs(_MEMORY)
    may_execute = not found.f_flag & os.ST_NOEXEC
    return may_execute and found.f_bavail * found.f_frsize >= _ENOUGH_BYTES

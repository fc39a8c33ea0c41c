"""File descriptors: each connection takes one, and databases need theirs."""

from __future__ import annotations

import logging

from engram import limits

logger = logging.getLogger(__name__)


def make_room_for(connections: int) -> int:
    """Raise this process's soft limit of open files, and return how many connections it has room for."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + limits.OPEN_FILES_BESIDE_CONNECTIONS
    # A limit below zero is none.
    if not 0 <= soft < wanted:
        return connections
    allowed = min(wanted, hard) if hard >= 0 else wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    return connections if allowed == wanted else _fewer(connections, allowed)


def _fewer(connections: int, files: int) -> int:
    """Return how many connections leave half of the files to everything else."""
    possible = min(connections, files // 2)
    if possible < connections:
        logger.warning(
            "the limit of %d open files leaves room for %d connections, not %d",
            files,
            possible,
            connections,
        )
    return possible

"""Files and directories that only their owner may read, and that survive power loss."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from engram.errors import ConfigurationError

logger = logging.getLogger(__name__)

FILE_MODE = 0o600
"""Only the owner may read what is stored."""
DIRECTORY_MODE = 0o700

FIRST_KEY = "first-key"
"""The file that the first start writes its key to if there is no terminal."""

SERVER_URL = "server-url"
"""The file with the address of the running server, for the commands of this machine."""

_OTHERS = 0o077
_ANYBODY_WRITES = 0o002
_OWN_NAMES = frozenset(
    {
        "orgs",
        "engine",
        "clients",
        "backup-staging",
        "backups.json",
        "engram.toml",
        "engram.mark",
        "engram.work",
        FIRST_KEY,
        SERVER_URL,
    }
)
_OWN_FILES = (
    "engram.db*",
    "engram.schema-*",
    "engram.mark",
    "engram.toml",
    "engram.work",
    "backups.json",
    FIRST_KEY,
    SERVER_URL,
)
_STORED = (*_OWN_FILES, "orgs/*.db*", "orgs/*.mark", "orgs/*.copy*")


def make_private(home: Path) -> None:
    """Remove the permissions of other users from the directory of a store and from its files.

    If the directory has other uses, only the store's own files are changed.

    Raises:
        ConfigurationError: it belongs to another user, and everybody may write there.
    """
    if not hasattr(os, "geteuid") or not home.is_dir():
        return  # Windows has no such permissions, and a new directory is created private.
    status = home.stat()
    if not status.st_mode & _OTHERS:
        return
    if os.geteuid() not in {0, status.st_uid}:
        _check_foreign(home, status)
    elif status.st_mode & stat.S_ISVTX or _has_other_uses(home):
        logger.warning("%s is open to other users: give the store a directory of its own", home)
        _close_all(home.glob(name) for name in _OWN_FILES)
    else:
        # The directory first: after that nobody else can reach a file in it.
        _close_all([[home, home / "orgs"], *(home.glob(name) for name in _STORED)])


def _check_foreign(home: Path, status: os.stat_result) -> None:
    remedy = f"let its owner run `chmod 700 {home}`, or choose another directory"
    if status.st_mode & _ANYBODY_WRITES:
        raise ConfigurationError(
            "ENGRAM_HOME", f"{home} is another user's and everybody may write there: {remedy}"
        )
    if status.st_mode & stat.S_IRWXO:
        logger.warning("%s is open to other users: %s", home, remedy)


def _has_other_uses(home: Path) -> bool:
    """Return True if there is no store here, but something else."""
    names = {path.name for path in home.iterdir()}
    return "engram.db" not in names and not names <= _OWN_NAMES


def _close_all(found: Iterable[Iterable[Path]]) -> None:
    for path in chain.from_iterable(found):
        _close(path)


def _close(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OTHERS and not path.is_symlink():
            path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return  # A log that another process has just removed.
    except OSError as exc:
        # Some file systems have no permissions, so nothing can protect the store.
        logger.warning("%s stays open to other users: %s", path, exc.strerror)


def make_directory(path: Path) -> None:
    """Create a directory only its owner may enter, with its parents, unless it exists."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    sync_directory(path.parent)


@contextmanager
def create_private(path: Path) -> Generator[BinaryIO]:
    """Create a file or empty it, and sync it at the end."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, target: Path) -> None:
    """Rename a synced file to where it belongs, over what may be there."""
    path.replace(target)
    sync_directory(target.parent)


def sync_directory(path: Path) -> None:
    """Make files created in a directory, or removed from it, survive power loss."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows has no handle for this, and journals directories itself.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

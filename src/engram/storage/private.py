"""Keep other users of the machine out of the directory of a store."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from engram.errors import ConfigurationError

logger = logging.getLogger(__name__)

FIRST_KEY = "first-key"
"""The file that the first start writes its key to if there is no terminal."""

_OTHERS = 0o077
_ANYBODY_WRITES = 0o002
_OWN_NAMES = frozenset({"orgs", "engram.toml", FIRST_KEY})
_OWN_FILES = ("engram.db*", "engram.toml", FIRST_KEY)
_STORED = (*_OWN_FILES, "orgs/*.db*")


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

"""Decide whether memory is on in a directory.

The user's settings decide; a repository can only switch memory off, by a file that every checkout of it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from engram.privacy.projects import Place

OFF_FILE = ".engram-off"
"""Switches memory off for its directory and everything below; what is in it does not matter."""


def is_remembered(
    directory: Path,
    place: Place,
    *,
    home: Path,
    only: Sequence[str] = (),
    never: Sequence[str] = (),
) -> bool:
    """Return True if sessions in a directory are stored and get memories.

    Args:
        only: if any, the places where memory is on: directories, with all below them, or projects; `*`
            stands for any characters.
        never: the places where it is off, even if they are among `only`.
    """
    if _has_off_file(directory) or _has_off_file(place.root):
        return False
    if any(_covers(each, directory, place, home) for each in never):
        return False
    return not only or any(_covers(each, directory, place, home) for each in only)


def _has_off_file(directory: Path) -> bool:
    directory = directory.absolute()
    return any(_is_there(each / OFF_FILE) for each in (directory, *directory.parents))


def _is_there(path: Path) -> bool:
    """Return True for any kind of file, and for a link that leads nowhere."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _covers(pattern: str, directory: Path, place: Place, home: Path) -> bool:
    if pattern.startswith("~"):
        pattern = f"{home}{pattern[1:]}"
    if pattern.startswith("/"):
        pattern = pattern.rstrip("/") or "/"
        paths = {directory.absolute(), place.root}
        return any(
            fnmatchcase(str(each), pattern) for path in paths for each in (path, *path.parents)
        )
    return fnmatchcase(place.project, pattern)

"""Exports that lie where earlier versions put them, and the move to their organisations' directories.

Every step is one rename, in an order that leaves the rest to be found again, so the move may be
stopped at any point and begun again. Of several processes one moves at a time.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

from engram.care.directories import opened_directory
from engram.care.exports import CONTENT, MARK, MARK_BYTES_MAX
from engram.care.paths import Place
from engram.errors import EngramError

logger = logging.getLogger(__name__)

DONE = ".engram-layout"
"""The file that says that all exports have been moved: without it they are looked for."""

UNCLAIMED = "unclaimed"
"""The directory for exports of organisations that are not in the store; no caller can name it."""

REMOVED = ".removed-"
"""Begins the name of a directory whose organisation was deleted, until all in it is gone."""

_WHOLE = "root-export"
"""The name for an export of the whole data directory if its owner's directory is an export too."""

Parts: TypeAlias = tuple[str, ...]


def needs_move(root: Path) -> bool:
    """Return True if there may be exports to move."""
    return root.is_dir() and (not (root / DONE).exists() or (root / UNCLAIMED).is_dir())


def move_exports(root: Path, organizations: Collection[str]) -> list[str]:
    """Move exports to the directories of their organisations; return those that are nobody's.

    Raises:
        OSError: the system refuses.
    """
    root = root.resolve()
    with opened_directory(root) as directory:
        directory.lock()
        return _move_all(root, organizations)


def _move_all(root: Path, organizations: Collection[str]) -> list[str]:
    is_done = (root / DONE).exists()
    found = sorted(_find_marks(root, (UNCLAIMED,) if is_done else ()), key=len, reverse=True)
    unclaimed = list[str]()
    # The deepest first: an export in another's export may be another organisation's.
    for parts in found:
        owner = _read_owner(Place(root, (*parts, MARK)))
        if owner not in organizations and parts and parts[0] in organizations:
            continue  # of another installation, and given to this organisation by the operator
        if owner not in organizations:
            owner = UNCLAIMED
            unclaimed.append("/".join(_inside(parts)) or ".")
        if parts[:1] != (owner,):
            _move(root, parts, owner)
    if not is_done:
        _note_done(root)
    return unclaimed


def _find_marks(root: Path, start: Parts) -> Iterator[Parts]:
    """Yield the directories that are marked as exports."""
    waiting = [start]
    while waiting:
        parts = waiting.pop()
        try:
            with os.scandir(root.joinpath(*parts)) as entries:
                kinds = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        except (FileNotFoundError, NotADirectoryError):
            continue  # moved by another process
        if kinds.get(MARK) is False:
            yield parts
        below = [name for name, is_directory in kinds.items() if is_directory]
        waiting.extend((*parts, name) for name in below if parts or not name.startswith(REMOVED))


def _read_owner(mark: Place) -> str:
    """Return the id of the organisation that made an export, nothing if the mark cannot be read."""
    try:
        facts: Any = json.loads(mark.read(bytes_max=MARK_BYTES_MAX))
        return str(facts["organization_id"])
    except (EngramError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _inside(parts: Parts) -> Parts:
    """Return the path of an export as its organisation named it."""
    return parts[1:] if parts[:1] == (UNCLAIMED,) else parts


def _move(root: Path, parts: Parts, owner: str) -> None:
    """Move an export to the directory of its owner, where it keeps its path."""
    inside = _inside(parts)
    if not inside:
        _move_content(root, parts, owner)
        return
    target = Place(root, (owner, *inside[:-1]))
    target.make_directory()
    # Moved by another process, where it is missing.
    with (
        suppress(FileNotFoundError),
        opened_directory(root, parts[:-1]) as above,
        opened_directory(root, target.parts) as into,
    ):
        free = next(name for name in _numbered(inside[-1]) if into.kind(name) is None)
        above.rename(parts[-1], free, into=into)


def _move_content(root: Path, parts: Parts, owner: str) -> None:
    """Move what an export of the whole directory consists of, the mark last."""
    source, home = Place(root, parts), Place(root, (owner,))
    names = [name for name in (*CONTENT, MARK) if source.child(name).kind() is not None]
    places = chain((home,), map(home.child, _numbered(_WHOLE)))
    place = next(each for each in places if all(each.child(name).kind() is None for name in names))
    place.make_directory()
    with opened_directory(root, parts) as above, opened_directory(root, place.parts) as into:
        for name in names:
            with suppress(FileNotFoundError):
                above.rename(name, name, into=into)


def _numbered(name: str) -> Iterator[str]:
    """Yield names like `name`, itself first."""
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _note_done(root: Path) -> None:
    try:
        Place(root, (DONE,)).write(b"1\n")
    except EngramError:
        # Nothing had to be moved, or that would have failed: an import needs no more.
        logger.debug("the data directory cannot be written", exc_info=True)

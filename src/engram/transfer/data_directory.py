"""The data directory: one directory for each organisation, which no other organisation can name.

An organisation's directory has its id as its name. A caller's path is relative to it, so every path
of every caller lies in the caller's own directory.

Earlier versions put exports anywhere below the data directory. They are moved to their
organisations' directories once: every step is one rename, in an order that leaves the rest to be
found again, so the move may be interrupted anywhere. Of several processes one moves at a time.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

from engram.errors import EngramError, InvalidRequestError
from engram.limits import STORED_ROW_BYTES
from engram.model.ids import OrganizationId
from engram.transfer.compression import expand_beginning
from engram.transfer.export_format import BEGINNING_BYTES, is_header, read_header
from engram.transfer.export_lines import parse_time
from engram.transfer.files import SafePath, opened_directory, parse_path
from engram.transfer.markdown_directory import FOLDERS, MARKER, MARKER_BYTES_MAX

logger = logging.getLogger(__name__)

MOVED = ".engram-layout"
"""The file that marks that all old exports have been moved; without it they are searched for."""

UNCLAIMED = "unclaimed"
"""The directory for exports of organisations that are not in the store; no caller can name it."""

_REMOVED = ".removed-"
"""Prefix of a directory whose organisation was deleted, until all of it is removed."""

_WHOLE = "root-export"
"""The name for an export of the whole data directory if its owner's directory is an export too."""

_ORGANIZATION = "org_"
_NUMBERED = re.compile(r"^\d+-|\.md$")
"""What the name of an exported file has besides an id."""

EARLIEST = datetime.min.replace(tzinfo=UTC)

Parts: TypeAlias = tuple[str, ...]


class DataDirectory:
    """The directory of `ENGRAM_DATA_DIR`; without one every path is refused."""

    def __init__(self, root: Path | None) -> None:
        self.root = root

    def locate(
        self, organization_id: OrganizationId, path: str, *, field: str = "path"
    ) -> SafePath:
        """Return a caller's path in the directory of an organisation.

        Raises:
            InvalidRequestError: there is no data directory, the path does not lead downwards from
                the organisation's directory, or there is a link on the way.
        """
        if self.root is None:
            message = "tools that use files are off here: ENGRAM_DATA_DIR is not set"
            raise InvalidRequestError(message, field=field)
        parts = parse_path(path, field=field)
        located = SafePath(self.root.resolve(), (organization_id, *parts), hidden=1)
        located.refuse_links(field=field)
        return located

    def counted_bytes(self, organization_id: OrganizationId) -> int:
        """Return the bytes that an organisation's files count towards its quota."""
        if self.root is None:
            return 0
        return sum(map(file_bytes, _file_sizes(self.root / organization_id)))

    def remove(self, organization_id: OrganizationId) -> None:
        """Remove an organisation's directory, renamed first so that nobody sees half of it.

        Raises:
            OSError: the system refuses; `leftovers` still returns it then.
        """
        if self.root is None or not self.root.is_dir():
            return
        removed = _REMOVED + organization_id
        with opened_directory(self.root) as root:
            root.remove(removed)
            with suppress(FileNotFoundError):
                root.rename(organization_id, removed)
            root.remove(removed)

    def forget(self, organization_id: OrganizationId, ids: frozenset[str]) -> int:
        """Remove an organisation's files that are named after any of some ids; return how many.

        An export has a file for each memory and each episode, which is named after it.

        Raises:
            OSError: the system refuses.
        """
        if self.root is None:
            return 0
        files = _files_below(self.root / organization_id)
        named = [Path(each.path) for each in files if _NUMBERED.sub("", each.name) in ids]
        for path in named:
            path.unlink(missing_ok=True)
        return len(named)

    def exports_before(self, organization_id: OrganizationId, moment: datetime) -> list[str]:
        """Return the paths of an organisation's exports that were begun before a moment, or whose time is unknown."""
        if self.root is None:
            return []
        own = self.root / organization_id
        found = ((each.path, exported_at(Path(each.path))) for each in _files_below(own))
        return sorted(
            # Names of files need not be UTF-8.
            os.fsencode(Path(path).relative_to(own)).decode(errors="replace")
            for path, time in found
            if time is not None and time < moment
        )

    def leftovers(self) -> list[OrganizationId]:
        """Return the organisations that have a directory, even a partly removed one."""
        if self.root is None or not self.root.is_dir():
            return []
        with os.scandir(self.root) as entries:
            names = {entry.name.removeprefix(_REMOVED) for entry in entries}
        return [OrganizationId(name) for name in sorted(names) if name.startswith(_ORGANIZATION)]

    def may_have_old_exports(self) -> bool:
        """Return True if there may be exports that earlier versions put elsewhere."""
        root = self.root
        if root is None or not root.is_dir():
            return False
        return not (root / MOVED).exists() or (root / UNCLAIMED).is_dir()

    def move_old_exports(self, organizations: Collection[str]) -> Sequence[str]:
        """Move old exports to their organisations' directories; return those without an owner.

        Raises:
            OSError: the system refuses.
        """
        if self.root is None:
            return ()
        root = self.root.resolve()
        with opened_directory(root) as directory:
            directory.lock()
            return _move_all(root, organizations)


def file_bytes(size: int) -> int:
    """Return the bytes that a file of this size counts towards the quota."""
    return STORED_ROW_BYTES + size


def exported_at(path: Path) -> datetime | None:
    """Return when an export was begun, the earliest time if it does not say; None if a file is no export.

    None too if it cannot be read: what our tools write can be, unless it was removed or exchanged meanwhile.
    """
    try:
        with open(path, "rb", opener=_open_itself) as file:
            data = expand_beginning(file.read(BEGINNING_BYTES))
    except (OSError, InvalidRequestError):
        return None
    if not is_header(data):
        return None
    try:
        header = read_header(data.partition(b"\n")[0])
        return parse_time(header.exported_at, field="exported_at")
    except InvalidRequestError:
        return EARLIEST


def _open_itself(path: str, flags: int) -> int:
    """Open a file, and nothing that a link leads to."""
    return os.open(path, flags | os.O_NOFOLLOW)


def _file_sizes(directory: Path) -> Iterator[int]:
    for entry in _files_below(directory):
        with suppress(FileNotFoundError):
            yield entry.stat(follow_symlinks=False).st_size


def _files_below(directory: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [] if directory.is_symlink() else [directory]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):  # removed or moved meanwhile, or never made
        return []


def _move_all(root: Path, organizations: Collection[str]) -> list[str]:
    is_moved = (root / MOVED).exists()
    found = sorted(_find_exports(root, (UNCLAIMED,) if is_moved else ()), key=len, reverse=True)
    unclaimed = list[str]()
    # The deepest first: an export in another's export may be another organisation's.
    for parts in found:
        owner = _read_owner(SafePath(root, (*parts, MARKER)))
        if owner not in organizations and parts and parts[0] in organizations:
            continue  # an export of another installation that the operator put there
        if owner not in organizations:
            owner = UNCLAIMED
            unclaimed.append("/".join(_inside(parts)) or ".")
        if parts[:1] != (owner,):
            _move(root, parts, owner)
    if not is_moved:
        _note_moved(root)
    return unclaimed


def _find_exports(root: Path, start: Parts) -> Iterator[Parts]:
    """Yield the directories that are exports."""
    waiting = [start]
    while waiting:
        parts = waiting.pop()
        entries = _entries(root.joinpath(*parts))
        is_directory = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        if is_directory.get(MARKER) is False:
            yield parts
        below = [name for name, enters in is_directory.items() if enters]
        waiting.extend((*parts, name) for name in below if parts or not name.startswith(_REMOVED))


def _read_owner(marker: SafePath) -> str:
    """Return the id of the organisation that made an export, "" if the marker cannot be read."""
    try:
        values: Any = json.loads(marker.read(bytes_max=MARKER_BYTES_MAX))
        return str(values["organization_id"])
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
    target = SafePath(root, (owner, *inside[:-1]))
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
    """Move what an export of the whole directory consists of, the marker last."""
    source, home = SafePath(root, parts), SafePath(root, (owner,))
    names = [name for name in (*FOLDERS, MARKER) if source.child(name).kind() is not None]
    targets = chain((home,), map(home.child, _numbered(_WHOLE)))
    target = next(
        each for each in targets if all(each.child(name).kind() is None for name in names)
    )
    target.make_directory()
    with opened_directory(root, parts) as above, opened_directory(root, target.parts) as into:
        for name in names:
            with suppress(FileNotFoundError):
                above.rename(name, name, into=into)


def _numbered(name: str) -> Iterator[str]:
    """Yield names like `name`, itself first."""
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _note_moved(root: Path) -> None:
    try:
        SafePath(root, (MOVED,)).write(b"1\n")
    except EngramError:
        # Nothing had to be moved, or that would have failed; an import can go on.
        logger.debug("the data directory cannot be written", exc_info=True)

"""The data directory: one directory for each organisation, which no other organisation can name.

An organisation's directory is called like its id. A caller's path is relative to it, so every path
of every caller lies in the caller's own directory.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from engram.care import old_exports
from engram.care.directories import opened_directory
from engram.care.old_exports import REMOVED
from engram.care.paths import Place, parse_path
from engram.errors import InvalidRequestError
from engram.limits import STORED_ROW_BYTES
from engram.model.ids import OrganizationId

_ORGANIZATION = "org_"


class DataDirectory:
    """The directory of `ENGRAM_DATA_DIR`; without one every path is refused."""

    def __init__(self, root: Path | None) -> None:
        self.root = root

    def place(self, organization_id: OrganizationId, path: str, *, field: str = "path") -> Place:
        """Return where a path leads in the directory of an organisation.

        Raises:
            InvalidRequestError: there is no data directory, the path does not lead downwards from
                the organisation's directory, or there is a link on the way.
        """
        if self.root is None:
            message = "tools that use files are off here: ENGRAM_DATA_DIR is not set"
            raise InvalidRequestError(message, field=field)
        parts = parse_path(path, field=field)
        place = Place(self.root.resolve(), (organization_id, *parts), hidden=1)
        place.refuse_links(field=field)
        return place

    def counted_bytes(self, organization_id: OrganizationId) -> int:
        """Return what an organisation's files count: a look at the size of each, without a read."""
        if self.root is None:
            return 0
        return sum(map(file_bytes, _file_sizes(self.root / organization_id)))

    def remove(self, organization_id: OrganizationId) -> None:
        """Remove an organisation's directory; it is out of everybody's sight before it is gone.

        Raises:
            OSError: the system refuses; `leftovers` then still names it.
        """
        if self.root is None or not self.root.is_dir():
            return
        removed = REMOVED + organization_id
        with opened_directory(self.root) as root:
            root.remove(removed)
            with suppress(FileNotFoundError):
                root.rename(organization_id, removed)
            root.remove(removed)

    def leftovers(self) -> list[OrganizationId]:
        """Return the organisations that have a directory, even a partly removed one."""
        if self.root is None or not self.root.is_dir():
            return []
        with os.scandir(self.root) as entries:
            names = {entry.name.removeprefix(REMOVED) for entry in entries}
        return [OrganizationId(name) for name in sorted(names) if name.startswith(_ORGANIZATION)]

    def needs_settling(self) -> bool:
        """Return True if there may be exports that earlier versions put elsewhere."""
        return self.root is not None and old_exports.needs_move(self.root)

    def settle(self, organizations: Collection[OrganizationId]) -> Sequence[str]:
        """Move such exports to their organisations' directories; return those that are nobody's.

        Raises:
            OSError: the system refuses.
        """
        return () if self.root is None else old_exports.move_exports(self.root, organizations)


def file_bytes(size: int) -> int:
    """Return what a file of a size counts towards the quota of bytes."""
    return STORED_ROW_BYTES + size


def _file_sizes(directory: Path) -> Iterator[int]:
    waiting = [] if directory.is_symlink() else [directory]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    yield entry.stat(follow_symlinks=False).st_size


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile, or never made
        return []

"""Where an export keeps what."""

from __future__ import annotations

import json
from dataclasses import dataclass

from engram.care.paths import Place
from engram.model.ids import OrganizationId

MARK = "engram-export.json"
"""The file that makes a directory an export; it says of whom, and how much there is."""

CONTENT = ("memories", "episodes")
"""The directories of an export."""

MARK_BYTES_MAX = 10_000
MARK_BYTES = 400
"""More than a mark has, and about as much."""

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ExportPlace:
    """The directory of one export."""

    directory: Place

    @property
    def memories(self) -> Place:
        """Return where the memories are, one file each."""
        return self.directory.child("memories")

    @property
    def episodes(self) -> Place:
        """Return where the episodes are, one file each."""
        return self.directory.child("episodes")

    @property
    def exists(self) -> bool:
        """Return True if there is a finished export."""
        return self.directory.child(MARK).kind() == "file"

    def prepare(self, owner: OrganizationId) -> None:
        """Make the directories and mark them, before anything is put there."""
        self.directory.make_directory()
        self.mark(owner, finished=False)
        self.memories.make_directory()
        self.episodes.make_directory()

    def mark(self, owner: OrganizationId, *, finished: bool, **counts: int) -> None:
        """Say whose the directory is, and whether all is there."""
        facts = {"engram": FORMAT, "organization_id": owner, "finished": finished, **counts}
        self.directory.child(MARK).write(json.dumps(facts, indent=2).encode() + b"\n")

    def is_free(self) -> bool:
        """Return True if nothing is there yet."""
        kind = self.directory.kind()
        return kind is None or (kind == "directory" and not self.directory.children())


def numbered_name(number: int, identifier: str) -> str:
    """Return the name of a file: names sort in the order of storing."""
    return f"{number:08}-{identifier}.md"


def remove_others(directory: Place, *, kept: set[str]) -> None:
    """Remove the files of an earlier export that are not among those just written."""
    for place in directory.children():
        if place.name not in kept and place.name.endswith(".md"):
            place.remove()

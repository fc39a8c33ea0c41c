"""What an upgrade of a store would do, whatever the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engram.model.ids import OrganizationId
from engram.storage.migrations import Migration


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A file as it was before an earlier upgrade."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class UpgradePart:
    """A file of a store, or its database."""

    name: str
    version: int
    """Of its schema."""
    known: int
    """The newest version that this program knows."""
    pending: Sequence[Migration] = ()
    room_bytes: int = 0
    """Needed while its tables are rewritten."""
    copy_bytes: int = 0
    """Taken from then on by the copy of what it was."""
    copies: Sequence[KeptCopy] = ()
    problem: str | None = None
    """Why it cannot be upgraded."""
    organization_id: OrganizationId | None = None
    """Whose file it is; None for the control file and for a database."""

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Tables that pending migrations rewrite."""
        return tuple(dict.fromkeys(name for step in self.pending for name in step.rewrites))


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """What an upgrade would do to a store."""

    parts: Sequence[UpgradePart]
    free_bytes: int | None = None
    """On the disk of the store; None if nobody here can know."""

    @property
    def is_due(self) -> bool:
        """Whether anything is left to do."""
        return any(part.pending for part in self.parts)

    @property
    def room_bytes(self) -> int:
        """Free space that it needs: every copy, and the longest log, since one file follows another."""
        logs = (part.room_bytes - part.copy_bytes for part in self.parts)
        return sum(part.copy_bytes for part in self.parts) + max(logs, default=0)

    @property
    def problems(self) -> list[str]:
        """Why it cannot be done."""
        found = [f"{part.name}: {part.problem}" for part in self.parts if part.problem]
        if self.free_bytes is not None and self.free_bytes < self.room_bytes:
            found.append(
                f"the upgrade needs {self.room_bytes:,} free bytes, and there are {self.free_bytes:,}"
            )
        return found

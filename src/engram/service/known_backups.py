"""The backups that still hold what was deleted."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from engram.backup.record import FILE_NAME, read_record
from engram.errors import BackupDamagedError
from engram.model.erasure import BackupNote


class BackupsHolding(NamedTuple):
    """The backups taken before something was deleted, the oldest first."""

    backups: tuple[BackupNote, ...] = ()
    unknown: tuple[str, ...] = ()
    """What a receipt says if there may be others."""


def backups_holding(home: Path, *, before: datetime) -> BackupsHolding:
    """Return the backups of a store that were taken before a moment."""
    try:
        known = read_record(home)
    except BackupDamagedError:
        return BackupsHolding(unknown=(f"backups that {FILE_NAME}, which is damaged, has named",))
    found = [
        BackupNote(
            name=f"{each.backup_id} in {destination.place}",
            taken_at=each.instant,
            expires_at=each.expires_at,
        )
        for destination in known
        for each in destination.backups
        if each.instant < before
    ]
    return BackupsHolding(tuple(sorted(found, key=lambda each: (each.taken_at, each.name))))

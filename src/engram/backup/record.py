"""What a store knows of its own backups: a file in its directory, for status, doctor and erasure."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from engram.backup.catalog import Catalog
from engram.backup.keeping import Rule, expiry_of
from engram.errors import BackupDamagedError
from engram.model.backup import KeptBackup, KnownDestination
from engram.model.value import replace
from engram.storage.private import create_private, replace_durably

logger = logging.getLogger(__name__)

FILE_NAME = "backups.json"


def read_record(home: Path) -> tuple[KnownDestination, ...]:
    """Return the destinations that backups of a store were made to, and what they had then.

    Others may have removed some since; every one that this store made is among them.

    Raises:
        BackupDamagedError: the record cannot be read.
    """
    try:
        data = (home / FILE_NAME).read_bytes()
        return msgspec.json.decode(data, type=tuple[KnownDestination, ...])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as exc:
        raise BackupDamagedError(f"{FILE_NAME} cannot be read: {exc}") from exc


def read_record_leniently(home: Path) -> tuple[KnownDestination, ...]:
    """Return what `read_record` does, but nothing, with a warning, if it cannot be read."""
    try:
        return read_record(home)
    except BackupDamagedError as exc:
        logger.warning("%s; the next backup begins it again", exc)
        return ()


def record_success(
    home: Path, place: str, catalog: Catalog, *, rules: Sequence[Rule], at: datetime
) -> None:
    """Record what a destination has after a backup."""
    backups = tuple(
        KeptBackup(
            backup_id=each.backup_id,
            instant=each.instant,
            expires_at=expiry_of(each.instant, rules),
        )
        for each in catalog.manifests
    )
    _put(home, KnownDestination(place=place, backups=backups, succeeded_at=at))


def record_failure(home: Path, place: str, failure: str, *, at: datetime) -> None:
    """Record that a backup failed; what is known of earlier ones stays."""
    known = {each.place: each for each in read_record_leniently(home)}
    before = known.get(place) or KnownDestination(place=place)
    _put(home, replace(before, failed_at=at, failure=failure))


def _put(home: Path, changed: KnownDestination) -> None:
    known = {each.place: each for each in read_record_leniently(home)} | {changed.place: changed}
    partial = home / f"{FILE_NAME}.partial"
    try:
        with create_private(partial) as file:
            file.write(msgspec.json.format(msgspec.json.encode(list(known.values()))) + b"\n")
        replace_durably(partial, home / FILE_NAME)
    except OSError:
        # A backup that was made is not worth less because this could not be written.
        logger.warning("could not record the outcome of a backup in %s", home, exc_info=True)

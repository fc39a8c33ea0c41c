"""The manifests of a destination: a backup is there if its manifest is, which is written last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from engram.backup.destination import MANIFESTS, OBJECTS, Destination
from engram.errors import BackupDamagedError, NotFoundError
from engram.limits import BACKUP_MANIFEST_BYTES_MAX
from engram.model.backup import FORMAT, FORMAT_VERSION, Manifest, StoredFile

CONTROL_NAME = "engram.db"
_FILE = re.compile(r"engram\.db|orgs/[A-Za-z0-9_-]+\.db")
_OBJECT = re.compile(r"[0-9a-f]{64}\.zst(\.age)?")
_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


@dataclass(slots=True)
class Catalog:
    """The backups of a destination, oldest first, and the manifests that cannot be read."""

    manifests: list[Manifest] = field(default_factory=list[Manifest])
    damaged: dict[str, str] = field(default_factory=dict[str, str])
    """What is wrong with each, by id."""

    @property
    def newest(self) -> Manifest | None:
        """Return the newest backup."""
        return self.manifests[-1] if self.manifests else None

    def find(self, as_of: datetime | None) -> Manifest:
        """Return the newest backup, or the newest that is not later than a moment.

        Raises:
            NotFoundError: there is none.
        """
        early = [each for each in self.manifests if as_of is None or each.instant <= as_of]
        if not early:
            raise NotFoundError("backup", "the newest" if as_of is None else f"as of {as_of}")
        return early[-1]

    def objects(self) -> set[str]:
        """Return the names of all objects that the backups consist of."""
        return {object_path(file) for each in self.manifests for file in each.files}


def make_id(instant: datetime) -> str:
    """Return the id of a backup of an instant."""
    return instant.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def object_path(file: StoredFile) -> str:
    """Return where the object of a file lies."""
    return f"{OBJECTS}/{file.object[:2]}/{file.object}"


def manifest_path(backup_id: str) -> str:
    """Return where the manifest of a backup lies."""
    return f"{MANIFESTS}/{backup_id}.json"


def read_catalog(destination: Destination) -> Catalog:
    """Return the backups of a destination."""
    catalog = Catalog()
    for backup_id in sorted(_list_ids(destination)):
        try:
            catalog.manifests.append(read_manifest(destination, backup_id))
        except BackupDamagedError as exc:
            catalog.damaged[backup_id] = exc.message
    return catalog


def write_manifest(destination: Destination, manifest: Manifest) -> None:
    """Make a backup one that is listed, found and restored."""
    line = msgspec.json.encode(manifest)
    digest = msgspec.json.encode({"sha256": sha256(line).hexdigest()})
    destination.write(manifest_path(manifest.backup_id), b"%s\n%s\n" % (line, digest))


def read_manifest(destination: Destination, backup_id: str) -> Manifest:
    """Return the manifest of a backup.

    Raises:
        BackupDamagedError: it is not what was written, or of a newer format.
        NotFoundError: there is none.
    """
    with destination.open(manifest_path(backup_id)) as file:
        lines = file.read(BACKUP_MANIFEST_BYTES_MAX).split(b"\n")
    try:
        head = msgspec.json.decode(lines[0], type=_Head)
        digest = msgspec.json.decode(lines[1], type=_Digest)
    except (msgspec.MsgspecError, IndexError) as exc:
        raise _damaged(backup_id, "is not a manifest") from exc
    if digest.sha256 != sha256(lines[0]).hexdigest():
        raise _damaged(backup_id, "was changed")
    if head.format != FORMAT or head.format_version > FORMAT_VERSION:
        raise _damaged(backup_id, "is of a newer Engram: upgrade this one")
    try:
        manifest = msgspec.json.decode(lines[0], type=Manifest)
    except msgspec.MsgspecError as exc:
        raise _damaged(backup_id, "is not a manifest") from exc
    return _checked(manifest, backup_id)


class _Head(msgspec.Struct):
    format: str
    format_version: int


class _Digest(msgspec.Struct):
    sha256: str


def _list_ids(destination: Destination) -> Iterator[str]:
    for item in destination.list_items(MANIFESTS):
        name = item.name.rpartition("/")[2].removesuffix(".json")
        if _ID.fullmatch(name):
            yield name


def _checked(manifest: Manifest, backup_id: str) -> Manifest:
    """Refuse names that would lead out of a directory, and a backup under another's name."""
    names: Sequence[str] = [file.name for file in manifest.files]
    is_sound = (
        manifest.backup_id == backup_id
        and CONTROL_NAME in names
        and len(set(names)) == len(names)
        and all(_FILE.fullmatch(name) for name in names)
        and all(_OBJECT.fullmatch(file.object) for file in manifest.files)
    )
    if not is_sound:
        raise _damaged(backup_id, "names files that no store has")
    return manifest


def _damaged(backup_id: str, fault: str) -> BackupDamagedError:
    return BackupDamagedError(f"the manifest of the backup {backup_id} {fault}")

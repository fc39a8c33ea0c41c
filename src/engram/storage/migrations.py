"""Schema migrations: numbered SQL files, whatever the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from engram.errors import StoreNewerError


@dataclass(frozen=True, slots=True)
class Migration:
    """The step from one version of a schema to the next."""

    version: int
    name: str
    sql: str


@cache
def read_migrations(package: str, *folders: str) -> tuple[Migration, ...]:
    """Return the migrations in a package's folder, in order."""
    folder = files(package).joinpath("migrations", *folders)
    steps = sorted(
        (
            Migration(int(entry.name[:4]), entry.name, entry.read_text(encoding="utf-8"))
            for entry in folder.iterdir()
            if entry.name.endswith(".sql")
        ),
        key=lambda step: step.version,
    )
    numbers = [step.version for step in steps]
    if numbers != list(range(1, len(steps) + 1)):
        raise ValueError(f"migrations of {package} are not numbered 1, 2, 3 …: {numbers}")
    return tuple(steps)


def refuse_newer(version: int, steps: Sequence[Migration]) -> None:
    """Refuse a schema that is newer than the last migration.

    Raises:
        StoreNewerError: it has migrations that this program does not have.
    """
    if version > len(steps):
        raise StoreNewerError(
            f"the store has schema version {version}, this Engram knows {len(steps)}: upgrade it"
        )

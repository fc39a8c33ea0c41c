"""Schema migrations: numbered SQL files, whatever the database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from engram import __version__
from engram.errors import StoreNewerError

_REWRITING = re.compile(
    r"""\b(?:
        DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)? | UPDATE\s+ | DELETE\s+FROM\s+
        | ALTER\s+TABLE\s+(?=\w+\s+(?:DROP\s+COLUMN|ALTER\s+COLUMN\s+\w+\s+(?:SET\s+DATA\s+)?TYPE)\b)
    )(\w+)""",
    re.IGNORECASE | re.VERBOSE,
)
_COMMENT = re.compile(r"--[^\n]*")
_ONE_ROW = frozenset({"counters", "meta", "upkeep", "vector_state"})
"""Tables with one row for an organisation, which is derived."""


@dataclass(frozen=True, slots=True)
class Migration:
    """The step from one version of a schema to the next."""

    version: int
    name: str
    sql: str

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Tables that it drops or whose rows it changes, in order; not those of one row."""
        tables = _REWRITING.findall(_COMMENT.sub("", self.sql))
        return tuple(dict.fromkeys(table for table in tables if table not in _ONE_ROW))


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
        raise newer_error(version, steps)


def newer_error(version: int, steps: Sequence[Migration]) -> StoreNewerError:
    """Return the error for a schema that is newer than the last migration, with its remedy."""
    return StoreNewerError(
        f"the store has schema {version}, and Engram {__version__} knows schemas up to {len(steps)}:"
        " install the Engram that wrote it, or a newer one; `engram upgrade --check` shows each file"
    )

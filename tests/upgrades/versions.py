"""Stores as earlier versions wrote them: which there are, and what each holds."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "stores"
WRITTEN = "written.json"
"""In each archive: what was sent to the version that wrote the store."""

SQLITE: Mapping[int, str] = {
    2: "7559c28",
    3: "60e84b4",
    4: "fbffe9e",
    5: "7f56518",
    6: "6cfb157",
    7: "4af2459",
    8: "94baa35",
    9: "4a63cba",
    10: "3c9dfc3",
    11: "b040e87",
    12: "3bfc1cd",
    13: "43693c8",
    14: "00b9399",
    16: "fff6bde",
    18: "240f7a6",
}
"""By the schema of an organisation's file, the last commit that wrote it and starts.

Schemas 15 and 17 came with their successors. Schema 1 held nothing.
"""

POSTGRES: Mapping[int, str] = {
    2: "5e313ad",
    3: "f8ec5ce",
    4: "94baa35",
    5: "8abca37",
    6: "4a63cba",
    8: "3c9dfc3",
    9: "b040e87",
    10: "3bfc1cd",
    11: "43693c8",
    12: "00b9399",
    13: "fff6bde",
    15: "240f7a6",
}
"""By the schema of a database, the last commit that wrote it and starts.

Schema 1 changed before schema 2 came; schemas 7 and 14 came with their successors.
"""


@dataclass(frozen=True, slots=True)
class Written:
    """What an organisation was sent, by the ids that the answers gave."""

    organization_id: str
    name: str
    key: str
    conversations: Mapping[str, list[str]]
    """Contents of messages, in order."""
    memories: Mapping[str, str]
    """Contents; notes are among them."""
    documents: Mapping[str, str]


def archive_of(database: str, version: int) -> Path:
    """Return the path of the archive with a store of a schema."""
    return FOLDER / f"{database}-{version:02}.tar.xz"


def unpack(database: str, version: int, *, into: Path) -> list[Written]:
    """Unpack a store, and return what was written to it."""
    with tarfile.open(archive_of(database, version)) as archive:
        archive.extractall(into, filter="data")
    content: list[dict[str, Any]] = json.loads((into / WRITTEN).read_text("utf-8"))
    (into / WRITTEN).unlink()
    return [Written(**each) for each in content]

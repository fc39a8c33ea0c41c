"""The MCP project's memory server: a graph of entities and relations, in a file of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.sources.lines import read_records
from engram.sources.places import Places
from engram.sources.texts import (
    as_list,
    digest_of,
    label_of,
)
from engram.sources.values import (
    Source,
    SourceFile,
    SourceMemory,
    Tally,
)


def roots(places: Places) -> tuple[Path, ...]:
    """Return the file that the MCP memory server is told to use."""
    chosen = places.variable("MEMORY_FILE_PATH")
    return () if chosen is None else (chosen,)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMemory]:
    """Yield a memory for each observation and each relation."""
    for record in read_records(file, tally):
        match record.get("type"):
            case "entity":
                yield from _entity(record)
            case "relation":
                ends = [str(record.get(key)) for key in ("from", "relationType", "to")]
                text = " ".join(ends).replace("_", " ")
                yield SourceMemory(digest_of("relation", *ends), text, tags=("relation",))
            case kind:
                tally.meet(kind)


def _entity(record: dict[str, Any]) -> Iterator[SourceMemory]:
    name, kind = str(record.get("name")), str(record.get("entityType"))
    tags = tuple(filter(None, (label_of(kind),)))
    for observation in as_list(record.get("observations")):
        if isinstance(observation, str):
            own_id = digest_of("entity", name, observation)
            yield SourceMemory(own_id, f"{name} ({kind}): {observation}", tags=tags)


SOURCE = Source(
    name="memory-server",
    title="MCP memory server",
    roots=roots,
    patterns=("**/memory.json*",),
    read=read,
    noun="memory",
)

"""mcp-memory-service: a database with one table of memories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engram.sources.places import Places
from engram.sources.tables import open_database, rows_of
from engram.sources.texts import (
    as_text,
    labels_of,
    moment_of,
)
from engram.sources.values import (
    Source,
    SourceFile,
    SourceMemory,
    Tally,
)


def roots(places: Places) -> tuple[Path, ...]:
    """Return where mcp-memory-service keeps its database."""
    chosen = places.variable("MCP_MEMORY_SQLITE_PATH")
    place = (
        places.data / "mcp-memory"
        if places.platform != "darwin"
        else places.application("mcp-memory")
    )
    return (place,) if chosen is None else (chosen, place)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMemory]:
    """Yield every memory that was not deleted."""
    with open_database(file.path) as database:
        for row in rows_of(database, "memories"):
            tally.read += 1
            if row.get("deleted_at") is not None:
                tally.skip("deleted there")
                continue
            yield SourceMemory(
                str(row["content_hash"]),
                str(row["content"]),
                moment_of(row.get("created_at")) or moment_of(row.get("created_at_iso")),
                labels_of(row.get("tags")),
                kind=as_text(row.get("memory_type")),
            )


SOURCE = Source(
    name="memory-service",
    title="mcp-memory-service",
    roots=roots,
    patterns=("sqlite_vec.db",),
    read=read,
    noun="memory",
)

"""mem0: a database with the history of changes, of which the last of each memory counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engram.sources.places import Places
from engram.sources.tables import Row, open_database
from engram.sources.texts import (
    as_text,
    moment_of,
)
from engram.sources.values import (
    Source,
    SourceFile,
    SourceMemory,
    Tally,
)

_MEM0 = """
SELECT memory_id, new_memory, event, is_deleted, created_at, updated_at
FROM history ORDER BY memory_id, coalesce(updated_at, created_at), rowid
"""


def roots(places: Places) -> tuple[Path, ...]:
    """Return where mem0 keeps its history."""
    return (places.named("MEM0_DIR", ".mem0"),)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMemory]:
    """Yield every memory as it is now; deleted ones are left out."""
    last: Row | None = None
    with open_database(file.path) as database:
        for row in database.execute(_MEM0):
            tally.read += 1
            if last is not None and last["memory_id"] != row["memory_id"]:
                yield from _mem0_memory(last, tally)
            last = row
    if last is not None:
        yield from _mem0_memory(last, tally)


def _mem0_memory(row: Row, tally: Tally) -> Iterator[SourceMemory]:
    text = as_text(row["new_memory"])
    if text is None or row["is_deleted"] or row["event"] == "DELETE":
        tally.skip("deleted there")
        return
    yield SourceMemory(str(row["memory_id"]), text, moment_of(row["created_at"]))


SOURCE = Source(
    name="mem0",
    title="mem0",
    roots=roots,
    patterns=("history.db",),
    read=read,
    noun="memory",
)

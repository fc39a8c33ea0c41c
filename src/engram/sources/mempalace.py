"""MemPalace: drawers in Chroma's tables or its own, and a graph of facts with the times they hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engram.sources.lines import parse_value
from engram.sources.places import Places
from engram.sources.tables import Row, has_table, open_database, rows_of
from engram.sources.texts import (
    as_record,
    label_of,
    moment_of,
)
from engram.sources.values import (
    Source,
    SourceFile,
    SourceMemory,
    Tally,
)

_DRAWERS = """
SELECT embeddings.embedding_id AS id, embeddings.created_at AS created_at, texts.string_value AS text,
    wings.string_value AS wing, rooms.string_value AS room
FROM embeddings
JOIN embedding_metadata AS texts ON texts.id = embeddings.id AND texts.key = 'chroma:document'
LEFT JOIN embedding_metadata AS wings ON wings.id = embeddings.id AND wings.key = 'wing'
LEFT JOIN embedding_metadata AS rooms ON rooms.id = embeddings.id AND rooms.key = 'room'
ORDER BY embeddings.id
"""
_FACTS = """
SELECT triples.*, subjects.name AS subject_name, objects.name AS object_name
FROM triples
LEFT JOIN entities AS subjects ON subjects.id = triples.subject
LEFT JOIN entities AS objects ON objects.id = triples.object
ORDER BY triples.id
"""


def roots(places: Places) -> tuple[Path, ...]:
    """Return where MemPalace keeps its palace and its graph."""
    home = places.named("MEMPALACE_CONFIG_DIR", ".mempalace")
    palace = places.variable("MEMPALACE_PALACE_PATH") or places.variable("MEMPALACE_PALACE")
    return (home,) if palace is None else (palace, home)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMemory]:
    """Yield drawers and facts; a fact ends when it ended to hold."""
    with open_database(file.path) as database:
        if has_table(database, "embedding_metadata"):
            for row in database.execute(_DRAWERS):
                tally.read += 1
                tags = tuple(filter(None, (label_of(row["room"]),)))
                text, project = str(row["text"]), label_of(row["wing"])
                moment = moment_of(row["created_at"])
                yield SourceMemory(str(row["id"]), text, moment, tags, project)
        for row in rows_of(database, "documents"):
            tally.read += 1
            facts = as_record(parse_value(row.get("metadata_json") or ""))
            tags = tuple(filter(None, (label_of(facts.get("room")),)))
            text, project = str(row.get("document")), label_of(facts.get("wing"))
            moment = moment_of(row.get("created_at"))
            yield SourceMemory(str(row["id"]), text, moment, tags, project)
        if has_table(database, "triples"):
            yield from map(_fact, database.execute(_FACTS))


def _fact(row: Row) -> SourceMemory:
    subject = row["subject_name"] or row["subject"]
    target = row["object_name"] or row["object"]
    text = f"{subject} {row['predicate']} {target}".replace("_", " ")
    began = moment_of(row.get("valid_from"))
    return SourceMemory(
        f"fact {row['id']}",
        text,
        began or moment_of(row.get("extracted_at")),
        ("fact",),
        valid_to=moment_of(row.get("valid_to")),
    )


SOURCE = Source(
    name="mempalace",
    title="MemPalace",
    roots=roots,
    patterns=("**/chroma.sqlite3", "**/sqlite_exact.sqlite3", "**/knowledge_graph.*"),
    read=read,
    noun="memory",
)

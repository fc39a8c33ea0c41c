"""Say under which headings a place of a document's text stands, by the chunk that holds it."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from engram.model.ids import DocumentId
from engram.model.row_keys import message_key
from engram.storage.bodies.rows import find_finished
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bodies/bodies.sql")


def headings_at(
    tx: Transaction, document_id: DocumentId, places: Sequence[int]
) -> list[tuple[str, ...]]:
    """Return the headings of each place; none where no chunk is known."""
    record = find_finished(tx, document_id).record
    if record is None:
        return [()] * len(places)
    count, _ = tx.execute(_SQL["record_size"], record=record).fetchone()

    def chunk(sequence: int) -> dict[str, Any]:
        key = message_key(record, sequence)
        (metadata,) = tx.execute(_SQL["chunk_place"], key=key).fetchone()
        return json.loads(metadata)

    def headings(place: int) -> tuple[str, ...]:
        # Chunks follow each other without a gap: some twenty of them are looked at.
        before = bisect_right(
            range(1, count + 1), place, key=lambda sequence: chunk(sequence)["start_byte"]
        )
        found = chunk(before) if before else None
        return tuple(found["headings"]) if found and place <= found["end_byte"] else ()

    return [headings(place) for place in places]

"""What the functions of one organisation's store share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engram.clock import Clock, IdSource, to_microseconds
from engram.model.ids import OrganizationId
from engram.storage.codec import ContentCodec
from engram.storage.postings.index import WordIndex
from engram.storage.postings.posting_cache import KnownWords
from engram.storage.postings.row_cache import KnownRows
from engram.storage.rows.database import Connection, Cursor, Database
from engram.storage.rows.message_cache import MessageCache
from engram.storage.rows.piece_cache import PieceCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An organisation, its database, and what this process remembers of it."""

    number: int
    id: OrganizationId
    database: Database
    words: WordIndex
    clock: Clock
    ids: IdSource
    codec: ContentCodec = field(default_factory=ContentCodec)
    known_rows: KnownRows = field(default_factory=KnownRows)
    known_words: KnownWords = field(default_factory=KnownWords)
    pieces: PieceCache = field(default_factory=PieceCache)
    messages: MessageCache = field(default_factory=MessageCache)

    def now(self) -> int:
        """Return the present moment in microseconds."""
        return to_microseconds(self.clock.now())

    def execute(self, connection: Connection, statement: str, **values: Any) -> Cursor:
        """Run a statement on this organisation's rows."""
        return connection.execute(statement, self.scoped(values))

    def execute_many(
        self, connection: Connection, statement: str, rows: Iterable[Mapping[str, Any]]
    ) -> None:
        """Run a statement once for each row, on this organisation's rows."""
        connection.executemany(statement, map(self.scoped, rows))

    def scoped(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` with the organisation among them."""
        return {"organization_id": self.number, **values}

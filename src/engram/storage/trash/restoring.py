"""Put back what is in the trash, with all that is derived from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from engram.errors import ConflictError, StoreCorruptError
from engram.limits import STORED_ROW_BYTES
from engram.model.ids import ConversationId, MemoryId
from engram.model.row_keys import message_key
from engram.model.vectors import PassageVector
from engram.storage.bookkeeping.counters import (
    grow_counters,
    measure,
    measure_conversation,
    measure_document,
    measure_memory,
)
from engram.storage.bookkeeping.row_hashes import CONVERSATION, MEMORY, TRASH, changing, seal
from engram.storage.content.messages import MessageRow
from engram.storage.content.pieces import measure_pieces
from engram.storage.document_rows import add_record, queue_document
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.trash.entries import Entry
from engram.storage.trash.rows import KEPT_TABLES, Part, add_parts, read_parts
from engram.storage.vectors.embedders import Embedders, read_embedders
from engram.storage.vectors.rows import add_unembedded, add_vectors, count_change
from engram.storage.words.rebuild import BATCH_CHARACTERS, clear_state
from engram.storage.words.rows import (
    Stretch,
    add_rows,
    batches_of_rows,
    first_words,
    words_in_windows,
    words_of_rows,
)
from engram.text.windows import window_count

_SQL = load_queries("trash/trash.sql")
_MEMORIES = load_queries("memories/memories.sql")


def read_kept_words(tx: Transaction, entry: Entry) -> list[MessageWords]:
    """Return the words to index an entry by, up to a bound of memory: analysed before the write lock."""
    title = None
    words = list[MessageWords]()
    left = BATCH_CHARACTERS
    for part in read_parts(tx, entry.id):
        if part.table == "conversation" and entry.kind == "conversation":
            title = next(part.by_column())["title"]
        if part.table != "message":
            continue
        rows = words_of_rows(
            tx,
            _message_rows(part),
            conversation_id=ConversationId(entry.id),
            title=title,
            skip_damaged=True,
        )
        some = first_words(rows, characters_max=left)
        words += some
        left -= sum(item.characters for item in some)
        if left < 0:
            break
    return words


def _message_rows(part: Part) -> Iterator[MessageRow]:
    for values in part.by_column():
        yield MessageRow(**{name: values[name] for name in MessageRow._fields})


def put_back(tx: Transaction, entry: Entry, *, known: Sequence[MessageWords]) -> None:
    """Put the rows of an entry back, index them and count them; the entry itself stays.

    `known` are words that were analysed before. Not put back is what refers to things that are gone by
    now: an episode, the other end of a relation. That a conversation is the default one is given up if
    there is another.

    Raises:
        ConflictError: something else has the id by now.
        StoreCorruptError: a part is not as it was stored.
    """
    if tx.execute(_SQL["is_present"], id=entry.id).fetchone() is not None:
        raise ConflictError(
            f"{entry.id} cannot be restored: there is another {entry.kind} with its id"
        )
    _Restoring(tx, entry, read_embedders(tx)).run(known)


@dataclass(slots=True)
class _Restoring:
    """One entry while its rows are put back."""

    tx: Transaction
    entry: Entry
    embedders: Embedders
    vectors: int = 0
    with_deep: set[int] = field(default_factory=set[int])
    waiting: set[int] = field(default_factory=set[int])
    is_adapted: bool = False
    """Whether a row is not quite what it was, and needs another hash."""

    def run(self, known: Sequence[MessageWords]) -> None:
        for part in read_parts(self.tx, self.entry.id):
            self._put(part)
        if self.entry.kind == "conversation":
            self._finish_conversation(known)
        else:
            self._finish_memory(known)

    def _put(self, part: Part) -> None:
        match part.table:
            case "vector" | "instant_vector":
                self._put_vectors(part)
            case "unembedded":
                self.waiting.update(values["key"] for values in part.by_column())
            case "relation":
                self._put_relations(part)
            case "conversation":
                self._insert(part, map(self._conversation, part.by_column()))
            case "memory":
                self._insert(part, map(self._memory, part.by_column()))
            case name if name in KEPT_TABLES:
                KEPT_TABLES[name].put_back(self.tx, part.columns, part.rows)
            case name:
                raise StoreCorruptError(f"the trash has rows of {name}, which is no table")

    def _insert(self, part: Part, rows: Iterable[dict[str, Any]]) -> None:
        ordered = ([values[name] for name in part.columns] for values in rows)
        KEPT_TABLES[part.table].put_back(self.tx, part.columns, ordered)

    def _conversation(self, values: dict[str, Any]) -> dict[str, Any]:
        if values["is_default"] and self.tx.execute(_SQL["has_default"]).fetchone() is not None:
            self.is_adapted = True
            return {**values, "is_default": 0}
        return values

    def _memory(self, values: dict[str, Any]) -> dict[str, Any]:
        changed = dict[str, Any]()
        episode = values["episode_id"]
        if episode and self.tx.execute(_SQL["has_episode"], id=episode).fetchone() is None:
            changed["episode_id"] = None
        if self.entry.document is not None:
            changed["record"] = None  # It gets another, when the document is put back.
        self.is_adapted = bool(changed)
        return {**values, **changed}

    def _put_relations(self, part: Part) -> None:
        """Put relations back; one whose other end is in the trash goes there."""
        for values in part.by_column():
            is_source = values["source"] == self.entry.number
            other = values["target" if is_source else "source"]
            if self.tx.execute(_SQL["has_memory"], number=other).fetchone() is not None:
                self._insert(part, [values])
            elif found := self.tx.execute(_SQL["find_memory_entry"], number=other).fetchone():
                row = [tuple(values[name] for name in part.columns)]
                add_parts(self.tx, found[0], [Part(part.table, part.columns, row)])
                with changing(self.tx, TRASH, id=found[0]):
                    self.tx.execute(_SQL["grow_entry"], id=found[0], stored_bytes=STORED_ROW_BYTES)
                grow_counters(self.tx, stored_bytes=STORED_ROW_BYTES)

    def _put_vectors(self, part: Part) -> None:
        """Put back the vectors of embedders that still have a role."""
        tier = "deep" if part.table == "vector" else "instant"
        roles = ("deep", "next") if tier == "deep" else ("instant",)
        rows = list(part.by_column())
        for embedder in filter(None, map(self.embedders.by_role.get, roles)):
            owned = [
                (row["key"], _passage(row)) for row in rows if row["embedder"] == embedder.number
            ]
            if owned:
                add_vectors(self.tx, embedder, tier, owned)
                self.vectors += len(owned)
            if embedder is self.embedders.deep:
                self.with_deep.update(key for key, _ in owned)

    def _finish_conversation(self, known: Sequence[MessageWords]) -> None:
        tx, entry = self.tx, self.entry
        if self.is_adapted:
            seal(tx, CONVERSATION, number=entry.number)
        self._index(known)
        tx.execute(_SQL["remember_session"], id=entry.id)
        chunks = window_count(entry.messages)
        grow_counters(tx, conversations=1, messages=entry.messages, chunks=chunks)
        self._count_bytes(measure_conversation(tx, entry.number))

    def _finish_memory(self, known: Sequence[MessageWords]) -> None:
        tx, entry = self.tx, self.entry
        if entry.document is not None:
            self._restore_document()
        elif entry.record is not None:
            self._index(known)
            grow_counters(tx, messages=1, chunks=1, memories=1)
        if self.is_adapted:
            seal(tx, MEMORY, number=entry.number)
        stored_bytes = measure_memory(tx, entry.number, since=0)
        stored_bytes += measure(tx, "ties", number=entry.number)
        if entry.document is not None:
            stored_bytes += measure_document(tx, entry.document)
            stored_bytes += measure_pieces(tx, entry.document)
        self._count_bytes(stored_bytes)

    def _restore_document(self) -> None:
        """Queue the document of a memory for indexing, unless the memory was forgotten."""
        tx, entry = self.tx, self.entry
        if not entry.messages:
            return
        row = tx.execute(_SQL["labels_of"], number=entry.number).fetchone()
        project, tags, document_id = row
        record = add_record(
            tx, MemoryId(entry.id), project=project, tags=json.loads(tags), now=tx.tenant.now()
        )
        queue_document(tx, document_id)
        tx.execute(_MEMORIES["put_record"], number=entry.number, record=record)

    def _index(self, known: Sequence[MessageWords]) -> None:
        """Index the words of the messages, and queue those without deep vectors."""
        tx, entry = self.tx, self.entry
        number = entry.record or 0
        state = clear_state(tx, now=tx.tenant.now())
        stretch = Stretch(number, ConversationId(entry.id), entry.messages)
        for rows in batches_of_rows(tx, stretch, known=known, skip_damaged=True):
            gained = words_in_windows(rows, last_sequence=stretch.last_sequence)
            add_rows(tx, rows, window_words=gained, also_next=state.is_in_next(number))
        if self.embedders.deep is not None:
            first = message_key(number, 1)
            self.waiting = {*range(first, first + entry.messages)} - self.with_deep
        add_unembedded(tx, sorted(self.waiting))
        count_change(tx, vectors=self.vectors, pending=len(self.waiting))

    def _count_bytes(self, stored_bytes: int) -> None:
        """Count the bytes of what is back, and no more those of the entry."""
        entry = self.entry
        values = {"record": entry.record, "memory": None, "document": entry.document}
        if entry.kind == "memory":
            values["memory"] = entry.number
        (content_bytes,) = self.tx.execute(_SQL["content_bytes_of"], **values).fetchone()
        grow_counters(
            self.tx,
            content_bytes=content_bytes,
            stored_bytes=stored_bytes - entry.stored_bytes,
            trashed_messages=-entry.messages,
        )


def _passage(row: dict[str, Any]) -> PassageVector:
    return PassageVector(
        start=row["start_character"],
        end=row["end_character"],
        content=row["content"],
        tokens=row.get("tokens"),
    )

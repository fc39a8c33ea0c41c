"""Take the chunks of a long document out of the search step by step, before what is left is removed.

To remove the words of a chunk takes as long as to add them: of a long document all others would wait
for minutes. The last chunks go first, so that what is left is at any time what was indexed up to there;
if the removal does not come, the document is indexed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from engram.clock import to_microseconds
from engram.model.ids import ConversationId, DocumentId
from engram.model.row_keys import message_key
from engram.storage.bodies.records import record_size
from engram.storage.bodies.rows import DocumentRow, find_rows
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import remove_messages
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch, remove_rows, words_gained, words_of
from engram.text.windows import window_count

CHUNKS_LEFT = 256
"""That a removal takes away in one transaction, and chunks that go in each step before it."""

_LEASE = timedelta(minutes=5)
"""Far longer than a step takes: nobody indexes the document meanwhile."""

_OWNER = "removal"

_SQL = load_queries("bodies/bodies.sql")
_MESSAGES = load_queries("conversations/messages.sql")


@dataclass(frozen=True, slots=True)
class _Cut:
    """A document whose last chunks are to go."""

    row: DocumentRow
    stretch: Stretch
    kept: int
    """How many chunks stay."""
    words: Sequence[MessageWords]
    """Of the chunks that go."""


async def shrink_document(
    tenant: Tenant, document_id: DocumentId, *, skip_damaged: bool = False
) -> bool:
    """Remove the chunks of a document but for the first ones; False when it has no more.

    Each step is one transaction.

    Raises:
        StoreCorruptError: a chunk cannot be read, and is not to be taken for an empty one.
    """
    is_shrunk = False
    read = partial(_read_cut, document_id=document_id, skip_damaged=skip_damaged)
    while (cut := await tenant.read(read)) is not None:
        await tenant.write(partial(_transact, cut=cut))
        is_shrunk = True
    return is_shrunk


def _read_cut(tx: Transaction, *, document_id: DocumentId, skip_damaged: bool) -> _Cut | None:
    """Analyse the chunks that go next; None when few enough are left."""
    row = find_rows(tx, [document_id]).get(document_id)
    if row is None or row.record is None:
        return None
    chunks, _ = record_size(tx, row.record)
    if chunks <= CHUNKS_LEFT:
        return None
    kept = max(CHUNKS_LEFT, chunks - CHUNKS_LEFT)
    stretch = Stretch(row.record, ConversationId(row.memory_id or ""), chunks)
    words = words_of(tx, stretch, after=kept, skip_damaged=skip_damaged)
    return _Cut(row, stretch, kept, list(words))


def _transact(tx: Transaction, *, cut: _Cut) -> None:
    row, stretch = cut.row, cut.stretch
    present = find_rows(tx, [row.id]).get(row.id)
    if present is None or present.record != stretch.conversation:
        return
    chunks, _ = record_size(tx, stretch.conversation)
    if chunks != stretch.last_sequence:
        return
    state = clear_state(tx, now=tx.tenant.now())
    _remove_words(tx, cut, is_in_next=state.is_in_next(stretch.conversation))
    _shorten(tx, cut)


def _remove_words(tx: Transaction, cut: _Cut, *, is_in_next: bool) -> None:
    gained = words_gained(tx, cut.stretch, cut.words, last_sequence=cut.kept)
    remove_rows(tx, cut.words, window_words=-gained, also_next=is_in_next)


def _shorten(tx: Transaction, cut: _Cut) -> None:
    """Remove the chunks that go, but for their words, and say how much of the text is left."""
    number, last = cut.stretch.conversation, cut.stretch.last_sequence
    keys = {"first": message_key(number, cut.kept + 1), "last": message_key(number, last)}
    tx.execute(
        _SQL["shorten_document"],
        number=cut.row.number,
        first=keys["first"],
        owner=_OWNER,
        until=to_microseconds(tx.tenant.clock.now() + _LEASE),
        now=tx.tenant.now(),
    )
    tx.execute(_MESSAGES["delete_messages"], **keys)
    tx.execute(_SQL["shorten_record"], record=number, messages=cut.kept)
    remove_messages(tx, **keys)
    grow_counters(tx, chunks=window_count(cut.kept) - window_count(last))

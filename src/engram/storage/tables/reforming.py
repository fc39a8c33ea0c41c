"""Re-form the open tail of a conversation's windows; complete windows never change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from engram import limits
from engram.errors import StoreCorruptError
from engram.storage.tables.database import Connection
from engram.storage.tables.keys import message_key, window_key
from engram.storage.tables.preparation import PreparedMessage
from engram.storage.tables.queries import load_queries
from engram.storage.tables.tails import TAIL_MESSAGES, Tail
from engram.storage.tables.tenant import Tenant
from engram.storage.tables.window_rows import WindowFormer, WindowRow
from engram.storage.tables.word_rows import Stretch, WordRows, add_rows, remove_rows, words_of
from engram.text.windows import first_open_window, window, window_count

_SQL = load_queries("messages.sql")


class TailUnknownError(Exception):
    """The words of a long tail are not at hand: to be read before the transaction is tried again."""

    def __init__(self, stretch: Stretch) -> None:
        super().__init__()
        self.stretch = stretch


def read_tail(
    connection: Connection, tenant: Tenant, stretch: Stretch, *, skip_damaged: bool
) -> Tail:
    """Return the words of the last messages of a stretch, analysed again."""
    words = words_of(
        connection, tenant, stretch, after=_before_tail(stretch), skip_damaged=skip_damaged
    )
    parts = tuple(item.part for item in words)
    return Tail(stretch.conversation, stretch.last_sequence, parts)


def find_tail(
    connection: Connection, tenant: Tenant, stretch: Stretch, *, is_patient: bool
) -> Tail:
    """Return the words of the last messages: remembered, or read again unless that takes long.

    Raises:
        TailUnknownError: analysing them would hold the write lock for too long, or one is damaged.
    """
    known = tenant.tails.get(stretch.conversation, last_sequence=stretch.last_sequence)
    if known is not None:
        return known
    if (
        not is_patient
        and _tail_characters(connection, tenant, stretch) > limits.INLINE_CHARACTERS_MAX
    ):
        raise TailUnknownError(stretch)
    try:
        return read_tail(connection, tenant, stretch, skip_damaged=False)
    except StoreCorruptError as exc:
        raise TailUnknownError(stretch) from exc


def _tail_characters(connection: Connection, tenant: Tenant, stretch: Stretch) -> int:
    sizes = tenant.execute(
        connection,
        _SQL["message_sizes"],
        first=message_key(stretch.conversation, _before_tail(stretch) + 1),
        last=message_key(stretch.conversation, stretch.last_sequence),
    )
    return sum(row[0] for row in sizes)


def _before_tail(stretch: Stretch) -> int:
    return max(0, stretch.last_sequence - TAIL_MESSAGES)


def extend_windows(
    connection: Connection,
    tenant: Tenant,
    tail: Tail,
    added: Sequence[PreparedMessage],
    *,
    also_next: bool,
) -> int:
    """Index the messages `added` after `tail`, and re-form the windows; return how many came new."""
    last = tail.last_sequence + len(added)
    open_number = first_open_window(tail.last_sequence)
    start = window(open_number, last_sequence=last).start
    kept = tail.parts[len(tail.parts) - (tail.last_sequence - start + 1) :]
    former = WindowFormer(first=open_number, last_sequence=last)
    parts = chain(kept, (message.part for message in added))
    formed = [row for seq, part in enumerate(parts, start) for row in former.add(seq, part)]
    if open_number < window_count(tail.last_sequence):
        stale = [(window_key(tail.conversation, open_number), " ".join(kept))]
        remove_rows(connection, WordRows((), stale), also_next=also_next)
    messages = [
        (message_key(tail.conversation, sequence), message.words)
        for sequence, message in enumerate(added, tail.last_sequence + 1)
    ]
    windows = [(window_key(tail.conversation, row.window.number), row.words) for row in formed]
    add_rows(connection, WordRows(messages, windows), also_next=also_next)
    put_chunks(connection, tenant, tail.conversation, formed)
    return window_count(last) - window_count(tail.last_sequence)


def put_chunks(
    connection: Connection,
    tenant: Tenant,
    conversation: int,
    rows: Sequence[WindowRow],
) -> None:
    """Store the bounds of windows."""
    tenant.execute_many(
        connection,
        _SQL["put_chunk"],
        [
            {
                "key": window_key(conversation, row.window.number),
                "start": row.window.start,
                "end": row.window.end,
            }
            for row in rows
        ],
    )

"""Keep the word indexes in step with messages and windows, also while new ones are being built.

A row of a word index is removed by the very words it holds, so these are made again from the
messages wherever they are not at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from engram.errors import StoreCorruptError
from engram.model.ids import ConversationId
from engram.storage.tables.database import Connection
from engram.storage.tables.keys import message_key, position_of, window_key
from engram.storage.tables.queries import load_queries
from engram.storage.tables.rows import message_rows, read_message, read_title
from engram.storage.tables.tenant import Tenant
from engram.storage.tables.window_rows import WindowFormer
from engram.storage.tables.words import (
    index_messages,
    index_windows,
    unindex_messages,
    unindex_windows,
)
from engram.text.analyse import message_words, window_words

_SQL = load_queries("rebuild.sql")
_BATCH_MESSAGES = 500

Row = tuple[int, str]


@dataclass(frozen=True, slots=True)
class MessageWords:
    """The words of a stored message: those it is found by, and its part in windows."""

    key: int
    words: str
    part: str


@dataclass(frozen=True, slots=True)
class WordRows:
    """Rows of both word indexes, each a row id and its words."""

    messages: Sequence[Row]
    windows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A conversation's messages from the first to `last_sequence`."""

    conversation: int
    conversation_id: ConversationId
    last_sequence: int


def remove_rows(connection: Connection, rows: WordRows, *, also_next: bool) -> None:
    """Remove rows from the word indexes, and from those being built if they hold them already."""
    unindex_messages(connection, rows.messages)
    unindex_windows(connection, rows.windows)
    if also_next:
        connection.executemany(_SQL["unindex_next_message"], rows.messages)
        connection.executemany(_SQL["unindex_next_window"], rows.windows)


def add_rows(connection: Connection, rows: WordRows, *, also_next: bool) -> None:
    """Add rows to the word indexes, and to those being built if they have come so far."""
    index_messages(connection, rows.messages)
    index_windows(connection, rows.windows)
    if also_next:
        add_next_rows(connection, rows)


def add_next_rows(connection: Connection, rows: WordRows) -> None:
    """Add rows to the word indexes that are being built."""
    connection.executemany(_SQL["index_next_message"], rows.messages)
    connection.executemany(_SQL["index_next_window"], rows.windows)


def words_of(
    connection: Connection,
    tenant: Tenant,
    stretch: Stretch,
    *,
    after: int = 0,
    skip_damaged: bool,
) -> Iterator[MessageWords]:
    """Yield the words of the messages of a stretch whose sequence is past `after`.

    Raises:
        StoreCorruptError: a message cannot be read, and is not to be taken for an empty one.
    """
    rows = message_rows(
        connection,
        tenant,
        first=message_key(stretch.conversation, after + 1),
        last=message_key(stretch.conversation, stretch.last_sequence),
    )
    title = read_title(connection, tenant, stretch.conversation)
    for row in rows:
        try:
            message = read_message(connection, tenant, row, conversation_id=stretch.conversation_id)
        except StoreCorruptError:
            if not skip_damaged:
                raise
            yield MessageWords(row.key, "", "")
        else:
            words = message_words(message, title=title)
            yield MessageWords(row.key, words, window_words((words,)))


def known_words(words: Iterable[MessageWords], *, characters_max: int) -> list[MessageWords]:
    """Return the first of `words`, as many as memory may hold at once."""
    known: list[MessageWords] = []
    for item in words:
        known.append(item)
        characters_max -= len(item.words) + len(item.part)
        if characters_max < 0:
            break
    return known


def batches_of_rows(
    connection: Connection,
    tenant: Tenant,
    stretch: Stretch,
    *,
    known: Sequence[MessageWords],
    skip_damaged: bool,
) -> Iterator[WordRows]:
    """Yield all rows of a conversation, from the words known already and then from its messages.

    It may have become shorter since its words were read.
    """
    known = [item for item in known if position_of(item.key) <= stretch.last_sequence]
    after = position_of(known[-1].key) if known else 0
    rest = words_of(connection, tenant, stretch, after=after, skip_damaged=skip_damaged)
    former = WindowFormer(first=0, last_sequence=stretch.last_sequence)
    messages: list[Row] = []
    windows: list[Row] = []
    for item in chain(known, rest):
        messages.append((item.key, item.words))
        windows.extend(
            (window_key(stretch.conversation, row.window.number), row.words)
            for row in former.add(position_of(item.key), item.part)
        )
        if len(messages) >= _BATCH_MESSAGES:
            yield WordRows(messages, windows)
            messages, windows = [], []
    yield WordRows(messages, windows)

"""The word indexes of an organisation file: two FTS5 tables of analysed words.

Both tables are contentless and hold what `engram.text.analyse` made of messages and windows, so
the tokenizer has only to keep our tokens as they are (every character above ASCII is part of a
token there, and so are the three that the analyser uses):

    CREATE VIRTUAL TABLE message_words USING fts5(
        words, content = '', tokenize = "ascii tokenchars '_+#'"
    );
    CREATE VIRTUAL TABLE window_words USING fts5(
        words, content = '', tokenize = "ascii tokenchars '_+#'"
    );

Their rows go by the keys of `engram.storage.tables.keys`. A contentless row is removed by the very
words it was indexed with; any others would leave the index damaged.
"""

from __future__ import annotations

from collections.abc import Iterable

from engram.storage.tables.database import Connection
from engram.storage.tables.queries import load_queries

_SQL = load_queries("words.sql")


def index_messages(connection: Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Add messages to their word index, as pairs of row id and words."""
    connection.executemany(_SQL["index_message"], rows)


def unindex_messages(connection: Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Remove messages from their word index, given the very words they were added with."""
    connection.executemany(_SQL["unindex_message"], rows)


def index_windows(connection: Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Add windows to their word index, as pairs of row id and words."""
    connection.executemany(_SQL["index_window"], rows)


def unindex_windows(connection: Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Remove windows from their word index, given the very words they were added with."""
    connection.executemany(_SQL["unindex_window"], rows)

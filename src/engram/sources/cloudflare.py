"""The tables of Engram on Cloudflare: as SQL, as JSON, or as a SQLite file.

A content is text, or compressed and in base64, as `content_encoding` says.
"""

from __future__ import annotations

import base64
import binascii
import sqlite3
import tempfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

from engram import limits
from engram.sources.documents import read_document
from engram.sources.lines import parse_value
from engram.sources.tables import Row, open_database, rows_of
from engram.sources.texts import as_list, as_record, as_text, moment_of
from engram.sources.values import (
    Session,
    Source,
    SourceError,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_SQLITE = b"SQLite format 3\0"
_ROLES: tuple[SpokenRole, ...] = ("user", "assistant", "system", "tool")
_GZIP = 31
"""Tells zlib to expect the header of gzip."""

_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_TRANSACTION,
    }
)
"""What a dump may do; attaching another database is not among it."""


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield the messages of all conversations."""
    with file.path.open("rb") as opened:
        beginning = opened.read(len(_SQLITE))
    if beginning == _SQLITE:
        with open_database(file.path) as database:
            yield from _read_tables(database, tally)
    elif beginning.lstrip()[:1] in (b"{", b"["):
        rows = list(_rows_in(read_document(file, tally)))
        conversations = [row for row in rows if "conversation_id" not in row]
        messages = [row for row in rows if "conversation_id" in row]
        yield from _read_rows(conversations, messages, tally)
    else:
        with _loaded(file.path, tally) as database:
            yield from _read_tables(database, tally)


def _read_tables(database: sqlite3.Connection, tally: Tally) -> Iterator[SourceMessage]:
    conversations = list(rows_of(database, "conversations"))
    columns = {row["name"] for row in database.execute("PRAGMA table_info(messages)")}
    order = "sequence" if "sequence" in columns else "created_at"
    messages = rows_of(database, "messages", order=f"conversation_id, {order}, rowid")
    yield from _read_rows(conversations, messages, tally)


def _rows_in(document: object) -> Iterator[Row]:
    """Yield the rows in a document: of D1's answers, of tables by name, or bare ones."""
    if isinstance(document, list):
        for each in cast("list[object]", document):
            yield from _rows_in(each)
        return
    fields = as_record(document)
    tables = [fields[key] for key in ("results", "conversations", "messages") if key in fields]
    if tables:
        for each in tables:
            yield from _rows_in(each)
    elif "id" in fields:
        yield fields


def _read_rows(
    conversations: Iterable[Row], messages: Iterable[Row], tally: Tally
) -> Iterator[SourceMessage]:
    sessions = {str(row.get("id")): _session(row) for row in conversations}
    for row in messages:
        tally.read += 1
        name = str(row.get("conversation_id"))
        try:
            text = decode_content(row.get("content"), row.get("content_encoding"))
        except ValueError as exc:
            tally.skip(str(exc))
            continue
        role = row.get("role")
        yield SourceMessage(
            sessions.setdefault(name, Session(id=name)),
            str(row.get("id")),
            role if role in _ROLES else "user",
            text,
            moment_of(row.get("created_at")),
            name=as_text(row.get("name")),
            tool_name=as_text(row.get("tool_name")),
            tool_call_id=as_text(row.get("tool_call_id")),
            metadata=_json_object(row.get("metadata")) or None,
        )


def _session(row: Row) -> Session:
    tags = row.get("tags")
    listed = parse_value(tags) if isinstance(tags, str) else tags
    return Session(
        id=str(row.get("id")),
        title=as_text(row.get("title")),
        project=as_text(row.get("project")),
        tags=tuple(each for each in as_list(listed) if isinstance(each, str)),
        metadata=_json_object(row.get("metadata")),
    )


def _json_object(value: object) -> dict[str, Any]:
    return as_record(parse_value(value) if isinstance(value, str) else value)


def decode_content(content: object, encoding: object) -> str:
    """Return the text of a content.

    Raises:
        ValueError: the encoding is unknown, or the content does not fit it; it says which.
    """
    if encoding in (None, "raw"):
        if not isinstance(content, str):
            raise ValueError("content is no text")
        return content
    if encoding != "gzip+base64":
        raise ValueError(f"unknown encoding {encoding}")
    try:
        data = base64.b64decode(str(content), validate=True)
        stream = zlib.decompressobj(_GZIP)
        text = stream.decompress(data, limits.MESSAGE_BYTES_MAX + 1)
        if len(text) <= limits.MESSAGE_BYTES_MAX and not stream.eof:
            raise ValueError("content is cut off")
        return text.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as exc:
        raise ValueError("content is damaged") from exc


@contextmanager
def _loaded(path: Path, tally: Tally) -> Generator[sqlite3.Connection]:
    """Load a dump into a database of its own, which may do nothing but hold tables."""
    with tempfile.TemporaryDirectory(prefix="engram-import-") as place:
        dump = Path(place) / "dump.db"
        with closing(sqlite3.connect(dump, isolation_level=None)) as connection:
            connection.set_authorizer(_authorize)
            connection.execute("BEGIN")
            for statement in _statements(path):
                try:
                    connection.execute(statement)
                except sqlite3.Error:
                    # Virtual tables, triggers and pragmas are refused; what fails otherwise, too.
                    tally.skip("statements of the dump")
            if connection.in_transaction:
                connection.execute("COMMIT")
        with open_database(dump) as database:
            yield database


def _authorize(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _statements(path: Path) -> Iterator[str]:
    """Yield the statements of a file.

    Raises:
        SourceError: one is longer than any row can be.
    """
    held = list[str]()
    size = 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            held.append(line)
            size += len(line)
            if size > limits.SOURCE_LINE_BYTES_MAX:
                raise SourceError("has a statement that is too long, or is no SQL")
            if line.rstrip().endswith(";") and sqlite3.complete_statement("".join(held)):
                yield "".join(held)
                held, size = [], 0


SOURCE = Source(
    name="cloudflare",
    title="Engram on Cloudflare (D1)",
    patterns=("*.sql", "*.json", "*.db", "*.sqlite"),
    read=read,
)

"""A store that is damaged, read-only, newer or out of space says so and stores nothing in part."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from engram.errors import (
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreNewerError,
    StoreReadOnlyError,
)
from engram.storage.sqlite.connection import WatchingConnection, translated_failures
from engram.storage.sqlite.file import SqliteFile, _SqliteSession  # pyright: ignore[reportPrivateUsage]
from engram.storage.threads import WorkerThreads
from tests.permissions import unprivileged
from tests.promises import promise
from tests.storage.conftest import OpenFile
from tests.storage.notes import add, texts

pytestmark = promise("failures")


async def test_a_file_that_is_no_database_is_corrupt(
    tmp_path: Path, threads: WorkerThreads
) -> None:
    path = tmp_path / "one.db"
    path.write_bytes(b"a letter to a friend, not a database " * 100)

    with pytest.raises(StoreCorruptError):
        await control_file(path, threads).open(create=True)

    assert path.read_bytes().startswith(b"a letter")


async def test_reading_a_damaged_page_is_corrupt_and_other_pages_are_read(
    file: SqliteFile, open_file: OpenFile
) -> None:
    await file.write(add("x" * 100_000))
    await file.close()
    with file.path.open("r+b") as raw:
        raw.seek(-40_960, os.SEEK_END)
        raw.write(b"\xff" * 40_960)

    damaged = await open_file()

    with pytest.raises(StoreCorruptError):
        await damaged.read(lambda c: c.execute("SELECT text FROM note NOT INDEXED").fetchall())
    assert await damaged.read(lambda c: c.execute("SELECT public_id FROM meta").fetchall())


async def test_a_missing_control_file_is_a_loss(tmp_path: Path, threads: WorkerThreads) -> None:
    with pytest.raises(StoreCorruptError):
        await texts(control_file(tmp_path / "one.db", threads))

    assert not (tmp_path / "one.db").exists()


async def test_a_truncated_file_is_corrupt(tmp_path: Path, threads: WorkerThreads) -> None:
    path = tmp_path / "one.db"
    file = control_file(path, threads)
    await file.open(create=True)
    await file.close()
    os.truncate(path, 8_192)

    with pytest.raises(StoreCorruptError):
        await control_file(path, threads).read(
            lambda connection: connection.execute("SELECT * FROM audit").fetchall()
        )


async def test_a_newer_file_is_refused_untouched(tmp_path: Path, threads: WorkerThreads) -> None:
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9999")

    with pytest.raises(StoreNewerError):
        await control_file(path, threads).open(create=True)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)


async def test_a_store_of_somebody_else_is_read_only(threads: WorkerThreads) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.db"
        file = control_file(path, threads)
        await file.open(create=True)
        await file.close()
        for each in (path, path.with_suffix(".mark")):
            each.chmod(0o444)
        path.parent.chmod(0o555)

        with unprivileged():
            theirs = control_file(path, threads)
            await theirs.open(create=True)
            with pytest.raises(StoreReadOnlyError):
                await theirs.write(lambda connection: connection.execute("DELETE FROM move"))
            await theirs.close()
        with unprivileged(), pytest.raises(StoreReadOnlyError):
            await control_file(path.with_name("two.db"), threads).open(create=True)

        path.parent.chmod(0o755)


async def test_a_path_through_a_file_is_a_storage_error(
    tmp_path: Path, threads: WorkerThreads
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StorageError):
        await control_file(tmp_path / "file" / "one.db", threads).open(create=True)


@promise("durable")
async def test_a_file_that_may_not_grow_is_full_and_keeps_what_it_has(
    file: SqliteFile, open_file: OpenFile
) -> None:
    await file.write(add("before"))
    await file.close()
    script = """
import asyncio, resource, sys
from pathlib import Path
from typing import Any
from engram.errors import StoreFullError
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.file import FileOwner
from engram.storage.threads import WorkerThreads
from tests.storage.notes import ORGANIZATION, add

async def main(path):
    owner = FileOwner(1, ORGANIZATION)
    file = SqliteFile(Path(path), kind="organization", threads=WorkerThreads(1), owner=owner)
    await file.open(create=False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    small, large = await asyncio.gather(
        file.write(add("small")), file.write(add("x" * 1_000_000)), return_exceptions=True
    )
    assert isinstance(large, StoreFullError), large
    assert small == "small" or isinstance(small, StoreFullError), small
    assert await file.write(add("after")) == "after"
    print(small)

asyncio.run(main(*sys.argv[1:]))
"""

    answer = await anyio.run_process([sys.executable, "-c", script, str(file.path)], check=False)

    assert answer.stderr == b""
    stored = ["small"] if answer.stdout == b"small\n" else []
    assert await texts(await open_file()) == ["after", "before", *stored]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO note VALUES ('x')", StoreBusyError),
        ("SELECT * FROM missing", StorageError),
        ("SELECT ?", StorageError),
    ],
)
def test_errors_keep_their_cause(
    tmp_path: Path, statement: str, expected: type[StorageError]
) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "one.db", isolation_level=None)) as one,
        closing(sqlite3.connect(tmp_path / "one.db", timeout=0)) as two,
    ):
        one.execute("CREATE TABLE note (text)")
        one.execute("BEGIN IMMEDIATE")

        with pytest.raises(expected) as caught, translated_failures():
            two.execute(statement)

    assert type(caught.value) is expected
    assert isinstance(caught.value.__cause__, sqlite3.Error)


async def test_a_file_held_for_too_long_is_busy(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch, open_file: OpenFile
) -> None:
    monkeypatch.setattr("engram.limits.STORE_BUSY_S", 0)
    impatient = await open_file()
    with closing(sqlite3.connect(file.path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreBusyError):
            await impatient.write(add("refused"))

    assert await impatient.write(add("accepted")) == "accepted"
    assert await texts(file) == ["accepted"]


def control_file(path: Path, threads: WorkerThreads) -> SqliteFile:
    return SqliteFile(path, kind="control", threads=threads)


async def test_a_writer_out_of_memory_answers_and_goes_on(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(connection: sqlite3.Connection) -> None:
        raise MemoryError

    def optimize_without_memory(self: sqlite3.Connection, sql: str, *values: Any) -> object:
        if sql == "PRAGMA optimize":
            raise MemoryError
        return sqlite3.Connection.execute(self, sql, *values)

    monkeypatch.setattr(WatchingConnection, "execute", optimize_without_memory, raising=False)

    with anyio.fail_after(60), pytest.raises(StorageError, match="memory"):
        await file.write(exhaust)
    # The commit fails as a whole: the writer drops its connection, and opens another.
    monkeypatch.setattr(_SqliteSession, "commit", exhaust)
    with anyio.fail_after(60), pytest.raises(StorageError, match="memory"):
        await file.write(add("lost"))
    monkeypatch.undo()

    with anyio.fail_after(60):
        await file.write(add("kept"))
    assert await texts(file) == ["kept"]


def test_a_message_of_sqlite_that_quotes_damaged_bytes_is_corruption() -> None:
    with pytest.raises(StoreCorruptError), translated_failures():
        b"malformed database schema \xa0".decode()

"""The engine: what one caller does, fails or abandons is nobody else's trouble."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from engram.errors import (
    NotFoundError,
    StorageError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
)
from engram.model.ids import OrganizationId
from engram.storage.sqlite.file import FileOwner, SqliteFile
from engram.storage.threads import WorkerThreads
from tests.promises import promise
from tests.storage.conftest import OpenFile
from tests.storage.notes import ORGANIZATION, add, texts


@promise("durable")
async def test_an_acknowledged_write_is_read_through_any_handle(
    file: SqliteFile, open_file: OpenFile
) -> None:
    other = await open_file()

    assert await file.write(add("seen")) == "seen"

    assert await texts(file) == ["seen"]
    assert await texts(other) == ["seen"]


async def test_writes_that_queue_up_share_a_commit(file: SqliteFile) -> None:
    statements: list[str] = []

    async with held_writer(file, before=lambda c: c.set_trace_callback(statements.append)):
        tasks = [start_write(file, add(text)) for text in "abc"]
        await anyio.lowlevel.checkpoint()
    await asyncio.gather(*tasks)

    assert await texts(file) == ["a", "b", "c"]
    # One for the work that held the writer, one for the three that waited.
    assert statements.count("COMMIT") == 2


async def test_a_commit_takes_a_bounded_share_of_the_queue(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.limits.WRITES_PER_COMMIT_MAX", 2)
    statements: list[str] = []

    async with held_writer(file, before=lambda c: c.set_trace_callback(statements.append)):
        tasks = [start_write(file, add(text)) for text in "abcde"]
        await anyio.lowlevel.checkpoint()
    await asyncio.gather(*tasks)

    assert await texts(file) == ["a", "b", "c", "d", "e"]
    assert statements.count("COMMIT") == 4


async def test_a_failing_work_does_not_harm_the_others_of_its_commit(file: SqliteFile) -> None:
    async with held_writer(file):
        tasks = [start_write(file, work) for work in (add("a"), add("a"), fail, add("b"))]
        await anyio.lowlevel.checkpoint()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results] == [str, StorageError, KeyError, str]
    assert await texts(file) == ["a", "b"]


@promise("durable")
async def test_a_work_that_fails_half_way_leaves_nothing(file: SqliteFile) -> None:
    def half(connection: sqlite3.Connection) -> None:
        add("first half")(connection)
        raise KeyError

    with pytest.raises(KeyError):
        await file.write(half)

    assert await texts(file) == []


@promise("durable")
async def test_a_failed_commit_acknowledges_nothing(file: SqliteFile) -> None:
    def break_commit(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE child (parent TEXT REFERENCES note (text))")
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.execute("INSERT INTO child VALUES ('nobody')")

    async with held_writer(file):
        tasks = [start_write(file, work) for work in (add("a"), break_commit, add("b"))]
        await anyio.lowlevel.checkpoint()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results] == [StorageError] * 3
    assert await texts(file) == []
    assert await file.write(add("later")) == "later"


@promise("durable")
@pytest.mark.parametrize("others", [0, 1])
async def test_a_work_whose_transaction_was_ended_is_not_acknowledged(
    file: SqliteFile, others: int
) -> None:
    def end(connection: sqlite3.Connection) -> None:
        add("gone")(connection)
        connection.execute("ROLLBACK")

    async with held_writer(file):
        tasks = [start_write(file, work) for work in (end, *[add("a")] * others)]
        await anyio.lowlevel.checkpoint()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results] == [StorageError] * (1 + others)
    assert await file.write(add("later")) == "later"
    assert await texts(file) == ["later"]


async def test_work_whose_caller_left_before_it_began_is_not_done(file: SqliteFile) -> None:
    async with held_writer(file):
        abandoned = start_write(file, add("abandoned"))
        waited_for = start_write(file, add("waited for"))
        await anyio.lowlevel.checkpoint()
        abandoned.cancel()
        await asyncio.wait([abandoned])
    await waited_for

    assert abandoned.cancelled()
    assert await texts(file) == ["waited for"]


@promise("durable")
async def test_work_whose_caller_leaves_while_it_runs_is_done_whole(file: SqliteFile) -> None:
    began, may_end = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        add("one")(connection)
        began.set()
        may_end.wait(5)
        add("two")(connection)

    task = start_write(file, slow)
    await asyncio.to_thread(began.wait, 5)
    task.cancel()
    may_end.set()
    await file.write(add("zero"))

    assert await texts(file) == ["one", "two", "zero"]


@promise("reproducible")
async def test_a_read_sees_one_snapshot(file: SqliteFile) -> None:
    loop = asyncio.get_running_loop()

    def count_twice(connection: sqlite3.Connection) -> tuple[int, int]:
        count = "SELECT count(*) FROM note"
        before = connection.execute(count).fetchone()[0]
        asyncio.run_coroutine_threadsafe(file.write(add("meanwhile")), loop).result(5)
        return before, connection.execute(count).fetchone()[0]

    assert await file.read(count_twice) == (0, 0)
    assert await texts(file) == ["meanwhile"]


@promise("reproducible")
async def test_a_read_cannot_write(file: SqliteFile) -> None:
    with pytest.raises(StoreReadOnlyError):
        await file.read(add("smuggled"))

    assert await texts(file) == []


async def test_a_read_that_fails_half_way_does_not_hold_back_the_next(file: SqliteFile) -> None:
    for text in "abc":
        await file.write(add(text))

    def stop_after_one_row(connection: sqlite3.Connection) -> None:
        cursor = connection.execute("SELECT text FROM note")
        raise NotFoundError("note", cursor.fetchone()[0])

    with pytest.raises(NotFoundError) as kept:
        await file.read(stop_after_one_row)
    await file.write(add("d"))

    # The exception, and with it the frame of the failed work, is still alive here.
    assert kept.value.identifier == "a"
    assert await texts(file) == ["a", "b", "c", "d"]


async def test_a_write_that_fails_half_way_does_not_hold_back_the_next(
    file: SqliteFile, open_file: OpenFile
) -> None:
    for text in "ab":
        await file.write(add(text))
    other = await open_file()

    def stop_after_one_row(connection: sqlite3.Connection) -> None:
        cursor = connection.execute("SELECT text FROM note")
        raise NotFoundError("note", cursor.fetchone()[0])

    with pytest.raises(NotFoundError) as kept:
        await file.write(stop_after_one_row)
    await other.write(add("c"))
    await file.write(add("d"))

    assert kept.value.identifier == "a"
    assert await texts(file) == ["a", "b", "c", "d"]


async def test_running_past_an_iterator_reaches_the_caller(file: SqliteFile) -> None:
    def exhaust(connection: sqlite3.Connection) -> str:
        return next(iter(connection.execute("SELECT text FROM note")))

    with anyio.fail_after(60):
        with pytest.raises(RuntimeError):
            await file.read(exhaust)
        with pytest.raises(RuntimeError):
            await file.write(exhaust)


@promise("durable")
async def test_a_full_disk_fails_the_write_and_stores_nothing(file: SqliteFile) -> None:
    await file.write(add("before"))

    def fill(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        add("small")(connection)
        add("x" * 1_000_000)(connection)

    with pytest.raises(StoreFullError):
        await file.write(fill)

    assert await texts(file) == ["before"]


async def test_two_event_loops_share_a_file(file: SqliteFile) -> None:
    def in_another_loop() -> list[str]:
        async def use() -> list[str]:
            await file.write(add("from another loop"))
            return await texts(file)

        return asyncio.run(use())

    assert await asyncio.to_thread(in_another_loop) == ["from another loop"]
    assert await texts(file) == ["from another loop"]


async def test_closing_finishes_what_was_accepted_and_refuses_the_rest(
    file: SqliteFile, open_file: OpenFile
) -> None:
    async with held_writer(file):
        task = start_write(file, add("accepted"))
        await anyio.lowlevel.checkpoint()
    await file.close()

    assert await task == "accepted"
    with pytest.raises(StorageError):
        await file.write(add("late"))
    with pytest.raises(StorageError):
        await texts(file)
    assert await texts(await open_file()) == ["accepted"]


async def test_a_resting_file_keeps_nothing_open_and_still_serves(file: SqliteFile) -> None:
    await file.write(add("before"))
    log = file.path.with_name(file.path.name + "-wal")

    await asyncio.to_thread(file.rest)

    # The last connection that closes takes the log with it.
    assert not log.exists()
    assert await texts(file) == ["before"]
    assert await file.write(add("after")) == "after"
    assert await texts(file) == ["after", "before"]


async def test_a_deleted_organization_is_gone_for_everyone_who_holds_its_file(
    file: SqliteFile, open_file: OpenFile
) -> None:
    other = await open_file()
    await other.write(add("before"))

    await file.write(FileOwner(1, ORGANIZATION).mark_deleted)

    for handle in (file, other):
        with pytest.raises(NotFoundError):
            await handle.write(add("after"))
        with pytest.raises(NotFoundError):
            await texts(handle)
        assert handle.is_gone


async def test_an_unlinked_file_does_not_come_back(file: SqliteFile) -> None:
    await asyncio.to_thread(file.rest)
    file.path.unlink()

    with pytest.raises(NotFoundError):
        await file.write(add("after"))
    with pytest.raises(NotFoundError):
        await texts(file)

    assert not file.path.exists()


@promise("apart")
async def test_a_file_of_another_organization_is_refused(
    file: SqliteFile, threads: WorkerThreads
) -> None:
    stranger = FileOwner(2, OrganizationId("org_two"))
    taken = SqliteFile(file.path, kind="organization", threads=threads, owner=stranger)

    with pytest.raises(StoreCorruptError):
        await taken.open(create=True)


@asynccontextmanager
async def held_writer(
    file: SqliteFile, *, before: Callable[[sqlite3.Connection], object] = bool
) -> AsyncGenerator[None]:
    """Keep the writer busy, so that what is written inside queues up behind it."""
    began, may_end = threading.Event(), threading.Event()

    def hold(connection: sqlite3.Connection) -> None:
        before(connection)
        began.set()
        may_end.wait(5)

    task = start_write(file, hold)
    await asyncio.to_thread(began.wait, 5)
    try:
        yield
    finally:
        may_end.set()
        await task


def start_write(
    file: SqliteFile, work: Callable[[sqlite3.Connection], object]
) -> asyncio.Task[object]:
    """Start a write without waiting for it."""
    return asyncio.ensure_future(file.write(work))


def fail(connection: sqlite3.Connection) -> None:
    """Fail in Python, not in SQLite."""
    raise KeyError(connection.in_transaction)

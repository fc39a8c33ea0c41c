"""Databases that their programs are writing to are read as they are, and never changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from engram import limits
from engram.sources.ledger import FILE_NAME
from engram.sources.tables import open_database
from engram.sources.values import STILL_WRITTEN, SourceError
from tests.fakes import FakeClock
from tests.sources.imports import Importer
from tests.sources.samples import ANSWERED, ASKED, SAMPLES, write_database


@pytest.fixture
def program(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Yield the connection of a program that keeps its newest rows in the write-ahead log."""
    SAMPLES["goose, database"].write(tmp_path)
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        yield connection


def _say(program: sqlite3.Connection, number: int) -> None:
    content = f'[{{"type": "text", "text": "number {number}"}}]'
    values = (number, f"m{number}", "go1", "user", content, 1772445600)
    program.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", values)


async def test_rows_in_the_write_ahead_log_are_imported(
    importer: Importer, tmp_path: Path, program: sqlite3.Connection
) -> None:
    await importer("goose", tmp_path)
    _say(program, 7)

    report = await importer("goose", tmp_path)

    assert (1, 4) == (report.stored, report.known)
    assert ("user", "number 7") in (await importer.said())[0]


async def test_a_locked_database_is_copied(
    importer: Importer, tmp_path: Path, program: sqlite3.Connection
) -> None:
    program.execute("PRAGMA journal_mode = DELETE")
    program.execute("BEGIN EXCLUSIVE")
    _say(program, 7)

    report = await importer("goose", tmp_path)

    assert (4, {}) == (report.stored, report.failed)


def test_a_missing_database_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), open_database(tmp_path / "none.db"):
        pass
    assert [] == list(tmp_path.iterdir())


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    path.write_bytes(b"no database at all" * 100)

    with pytest.raises(SourceError), open_database(path):
        pass


async def test_a_damaged_ledger_is_begun_again(importer: Importer, tmp_path: Path) -> None:
    SAMPLES["copilot"].write(tmp_path / "p")
    await importer("copilot", tmp_path / "p")
    (importer.home / FILE_NAME).write_bytes(b"no database at all" * 1_000)

    again = await importer("copilot", tmp_path / "p")
    third = await importer("copilot", tmp_path / "p")

    assert (0, 4) == (again.stored, again.known)
    assert 1 == third.unchanged


async def test_a_part_that_is_no_json_costs_itself(importer: Importer, tmp_path: Path) -> None:
    SAMPLES["opencode, files"].write(tmp_path)
    (tmp_path / "storage" / "part" / "m1" / "p1.json").write_text("{torn")

    report = await importer("opencode", tmp_path)

    assert (3, 1) == (report.stored, report.tally.skipped["invalid JSON"])


async def test_an_answer_of_opencode_is_stored_when_it_is_whole(
    importer: Importer, tmp_path: Path
) -> None:
    SAMPLES["opencode, database"].write(tmp_path)
    half = '{"type": "text", "text": "The ferry", "time": {"start": 1}}'
    whole = '{"type": "text", "text": "The ferry leaves at 9.", "time": {"start": 1, "end": 2}}'
    call = '{"type": "tool", "tool": "read", "state": {"status": "pending", "input": {}}}'
    with closing(sqlite3.connect(tmp_path / "opencode.db")) as program, program:
        program.execute("UPDATE part SET data = ? WHERE id = 'p4'", (half,))
        program.execute("INSERT INTO part VALUES ('p6', 'm2', ?)", (call,))

    first = await importer("opencode", tmp_path)
    with closing(sqlite3.connect(tmp_path / "opencode.db")) as program, program:
        program.execute("UPDATE part SET data = ? WHERE id = 'p4'", (whole,))
        program.execute("DELETE FROM part WHERE id = 'p6'")
    second = await importer("opencode", tmp_path)

    assert (3, 2) == (first.stored, first.tally.skipped[STILL_WRITTEN])
    assert (1, 3) == (second.stored, second.known)
    assert ("assistant", "The ferry leaves at 9.") in (await importer.said())[0]


@pytest.mark.parametrize(
    ("source", "sample"), [("goose", "goose, database"), ("cursor", "cursor, database")]
)
async def test_an_answer_in_a_session_that_is_written_to_waits_for_its_end(
    importer: Importer, tmp_path: Path, clock: FakeClock, source: str, sample: str
) -> None:
    SAMPLES[sample].write(tmp_path)
    (prompt, *answer), *_ = SAMPLES[sample].said
    touch(tmp_path, source, at=clock.now())

    first = await importer(source, tmp_path)
    assert [[prompt]] == await importer.said()

    clock.advance(timedelta(seconds=limits.SOURCE_SETTLE_S))
    second = await importer(source, tmp_path)

    assert (1, len(answer)) == (first.stored, first.tally.skipped[STILL_WRITTEN])
    assert (len(answer), 1) == (second.stored, second.known)
    assert [[prompt, *answer]] == await importer.said()


async def test_half_an_answer_of_zed_is_not_stored_beside_the_whole(
    importer: Importer, tmp_path: Path, clock: FakeClock
) -> None:
    path, now = tmp_path / "threads.db", clock.now()
    write_thread(path, ASKED, ANSWERED[:9], at=now)
    await importer("zed", tmp_path)
    write_thread(path, ASKED, ANSWERED, at=now)
    await importer("zed", tmp_path)
    write_thread(path, ASKED, ANSWERED, "And back?", at=now)

    await importer("zed", tmp_path)

    said = [("user", ASKED), ("assistant", ANSWERED), ("user", "And back?")]
    assert [said] == await importer.said()


def touch(place: Path, source: str, *, at: datetime) -> None:
    """Let a program write to its session at a moment."""
    if source == "goose":
        with closing(sqlite3.connect(place / "sessions.db")) as program, program:
            program.execute("ALTER TABLE sessions ADD COLUMN updated_at TEXT")
            program.execute("UPDATE sessions SET updated_at = ?", (f"{at:%Y-%m-%d %H:%M:%S}",))
        return
    path = place / "globalStorage" / "state.vscdb"
    with closing(sqlite3.connect(path)) as program, program:
        changed = "json_set(value, '$.lastUpdatedAt', ?)"
        program.execute(
            f"UPDATE cursorDiskKV SET value = {changed} WHERE key = 'composerData:k1'",  # noqa: S608 - ours
            (int(at.timestamp() * 1_000),),
        )


def write_thread(path: Path, *texts: str, at: datetime) -> None:
    """Write a thread of Zed in which user and agent take turns."""
    kinds = ("User", "Agent")
    messages = [
        {kinds[number % 2]: {"content": [{"Text": text}]}} for number, text in enumerate(texts)
    ]
    path.unlink(missing_ok=True)
    write_database(
        path,
        "CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, data_type TEXT, data TEXT);",
        {"threads": [("z1", "Ferry", at.isoformat(), "json", json.dumps({"messages": messages}))]},
    )

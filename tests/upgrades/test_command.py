"""`engram upgrade`: it says what it would do, does it, and keeps what it rewrites until told otherwise."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engram import limits
from engram.storage.migrations import Migration
from engram.storage.upgrade import UpgradePart, UpgradePlan
from tests.cli.commands import Engram
from tests.upgrades.versions import unpack

OLD = 7
"""A version before one that rewrites tables."""


@pytest.fixture
def old(tmp_path: Path) -> Engram:
    """Return the command line on a store of an earlier version."""
    unpack("sqlite", OLD, into=tmp_path)
    return Engram(tmp_path)


def copies(engram: Engram) -> list[Path]:
    return sorted((engram.home / "orgs").glob("*.copy"))


def test_check_names_migrations_and_what_they_rewrite(old: Engram) -> None:
    shown = old("upgrade", "--check")

    assert 0 == shown.status
    assert "to apply: 0008_windows_from_messages.sql, which rewrites" in shown.stdout
    assert "0007_document_bodies.sql" not in shown.stdout
    assert "nothing was changed" in shown.stderr
    plan = old("upgrade", "--check", "--json").json
    files = [part for part in plan["parts"] if part["name"].startswith("orgs/")]
    sizes = [(old.home / part["name"]).stat().st_size for part in files]
    log = max(*sizes, limits.FREE_BYTES_MIN)
    assert sum(sizes) + log == plan["room_bytes"] < plan["free_bytes"]


def test_files_are_kept_as_they_were_until_they_are_removed_by_command(old: Engram) -> None:
    refused = old("upgrade", "--remove-copies")
    done = old("upgrade")
    again = old("upgrade")

    kept = copies(old)
    assert (2, 0, 0) == (refused.status, done.status, again.status)
    assert kept
    assert all(f"orgs/{copy.name}" in done.stdout for copy in kept)
    assert all(copy.stat().st_mode & 0o077 == 0 for copy in kept)
    assert {OLD} == {schema_version(copy) for copy in kept}
    assert "nothing to upgrade" in again.stderr
    assert 0 == old("upgrade", "--remove-copies").status
    assert [] == copies(old)


def test_a_kept_file_goes_with_its_organisation(tmp_path: Path) -> None:
    deleted, *_ = unpack("sqlite", OLD, into=tmp_path)
    engram = Engram(tmp_path)
    engram("upgrade")

    engram("orgs", "delete", deleted.organization_id, "--name", deleted.name)

    assert [] == [*(tmp_path / "orgs").glob(f"{deleted.organization_id}*")]
    assert copies(engram)


def test_a_newer_file_is_refused_and_the_others_are_not_touched(old: Engram) -> None:
    newer = next((old.home / "orgs").glob("*.db"))
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 999")

    refused = old("upgrade", "--json")

    assert 1 == refused.status
    assert "install the Engram that wrote it" in refused.stdout
    assert "`engram upgrade --check`" in refused.stdout
    assert [] == copies(old)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    engram = Engram(tmp_path / "none")

    shown = engram("upgrade")

    assert 0 == shown.status
    assert not engram.home.exists()


def test_an_upgrade_without_room_is_refused_before_it_begins() -> None:
    step = Migration(2, "0002_more.sql", "DROP TABLE message;")
    parts = [
        UpgradePart(name, 1, 2, [step], room_bytes=2 * size, copy_bytes=size)
        for name, size in (("one", 10), ("two", 30))
    ]

    assert [] == UpgradePlan(parts, free_bytes=70).problems
    assert 1 == len(UpgradePlan(parts, free_bytes=69).problems)


@pytest.mark.parametrize(
    ("statement", "rewritten"),
    [
        ("DROP TABLE message; DROP TABLE IF EXISTS chunk;", ("message", "chunk")),
        ("UPDATE message SET name = NULL;", ("message",)),
        ("DELETE FROM audit;", ("audit",)),
        ("ALTER TABLE message DROP COLUMN name;", ("message",)),
        ("ALTER TABLE message ALTER COLUMN name TYPE text;", ("message",)),
        ("ALTER TABLE message ADD COLUMN name TEXT; -- UPDATE message\n", ()),
        ("UPDATE counters SET messages = 1;", ()),
        ("CREATE TABLE x (y REFERENCES z ON DELETE CASCADE); DROP INDEX i;", ()),
    ],
)
def test_rewritten_tables_follow_from_the_statements(
    statement: str, rewritten: tuple[str, ...]
) -> None:
    assert rewritten == Migration(2, "0002_more.sql", statement).rewrites


def schema_version(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]

"""Status, doctor and reindex."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from dirty_equals import IsPartialDict

from engram import __version__
from engram.cli.maintenance import read_limits
from tests.cli.commands import Engram
from tests.promises import promise


def organization_file(engram: Engram) -> Path:
    """Return the one organisation's file."""
    [path] = (engram.home / "orgs").glob("*.db")
    return path


def damage(path: Path, statement: str) -> None:
    """Change a store behind Engram's back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def test_status_counts_what_is_stored(engram: Engram, conversation: str) -> None:
    status = engram("status", "--json").json

    assert status == IsPartialDict(
        conversations=1, messages=3, chunks=1, vectors=0, pending=0, embedder=None
    )
    assert status["degraded"] == ["words_only"]


def test_status_in_text_names_the_store(engram: Engram, conversation: str) -> None:
    shown = engram("status").stdout

    assert str(engram.home) in shown
    assert "words only" in shown


@promise("one-truth")
def test_doctor_finds_nothing_wrong_with_a_whole_store(engram: Engram, conversation: str) -> None:
    report = engram("doctor", "--json").json

    assert (report.pop("findings"), report.pop("remaining")) == ([], [])
    assert (report.pop("backups"), report.pop("drift")) == ([], {})
    assert report == {"organizations": 1, "repaired": 0, "unhashed": 0, "hashed": 0}


@promise("one-truth")
def test_doctor_finds_and_mends_damage_of_what_is_derived(
    engram: Engram, conversation: str
) -> None:
    damage(organization_file(engram), "UPDATE counters SET messages = messages + 5")

    found = engram("doctor")
    repaired = engram("doctor", "--repair")

    assert (found.status, repaired.status) == (1, 0)
    assert "counters  repairable" in found.stdout
    assert "`engram doctor --repair`" in found.stderr
    assert "all problems are repaired" in repaired.stdout
    assert engram("doctor", "--json").json["findings"] == []


@promise("verbatim")
def test_doctor_does_not_pretend_to_mend_what_was_said(engram: Engram, conversation: str) -> None:
    damage(organization_file(engram), "UPDATE message SET content = 'forged'")

    repaired = engram("doctor", "--repair", "--json")

    assert repaired.status == 1
    assert '"check": "hashes"' in repaired.stdout


@promise("failures")
def test_doctor_reports_a_destroyed_file_and_checks_the_others(
    engram: Engram, conversation: str
) -> None:
    path = organization_file(engram)
    engram("orgs", "create", "other")
    path.write_bytes(b"no database at all" * 1000)

    report = engram("doctor")

    assert report.status == 1
    assert f"{path.stem}  file  damaged" in report.stdout
    assert "checked 2 organisations" in report.stderr


@promise("one-truth")
def test_doctor_refuses_an_emptied_file_until_it_is_accepted(
    engram: Engram, conversation: str
) -> None:
    path = organization_file(engram)
    os.truncate(path, 0)

    found = engram("doctor")
    searched = engram("search", "Lisbon")
    accepted = engram("doctor", "--accept")
    after = engram("doctor")

    assert (found.status, searched.status) == (1, 1)
    assert f"{path.stem}  file  damaged  {path.name} is empty" in found.stdout
    assert "error: store_replaced" in searched.stderr
    assert (accepted.status, after.status) == (0, 0)
    assert "no problems found" in after.stdout


def test_doctor_names_files_that_belong_to_nobody(engram: Engram, conversation: str) -> None:
    (engram.home / "orgs" / "org_lost.db").write_bytes(b"of whom?")

    report = engram("doctor")

    assert report.status == 1
    assert "store  files  damaged  orgs/org_lost.db belongs to no organisation" in report.stdout


@pytest.mark.parametrize("is_deleted", [True, False])
def test_store_that_lost_its_control_file_is_not_begun_anew(
    engram: Engram, conversation: str, *, is_deleted: bool
) -> None:
    for path in engram.home.glob("engram.*"):
        path.unlink()
    if not is_deleted:
        (engram.home / "engram.db").touch()

    outcome = engram("doctor")

    assert outcome.status == 1
    assert "error: store_replaced" in outcome.stderr
    assert organization_file(engram).stat().st_size


def test_reindex_reads_every_message(engram: Engram, conversation: str) -> None:
    before = engram("search", "Lisbon", "--json").json

    rebuilt = engram("reindex", "--json").json

    assert rebuilt == {"messages": 3}
    assert engram("search", "Lisbon", "--json").json == before


def test_limits_are_all_of_them_with_their_reasons(engram: Engram) -> None:
    shown = engram("limits", "--json").json["limits"]

    assert shown["MESSAGES_PER_CALL_MAX"] == IsPartialDict(value=200)
    assert set(shown) == {name for name, _, _ in read_limits()}
    assert "MESSAGES_PER_CALL_MAX" in engram("limits").stdout


@pytest.mark.parametrize("command", ["version", "--version"])
def test_version_is_shown(engram: Engram, command: str) -> None:
    assert engram(command).stdout.startswith(f"engram {__version__}")


@pytest.mark.parametrize("command", ["limits", "version"])
def test_facts_about_engram_touch_no_store(engram: Engram, command: str) -> None:
    engram(command, "--json")

    assert not engram.home.exists()

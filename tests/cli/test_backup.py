"""`engram backup` and `engram restore` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engram.cli.app import complete
from tests.cli.commands import Engram


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["backup", "/mnt/x"], ["backup", "create", "/mnt/x"]),
        (["backup", "--keep", "7d", "/mnt/x"], ["backup", "create", "--keep", "7d", "/mnt/x"]),
        (["backup", "./list"], ["backup", "create", "./list"]),
        (["backup", "list", "/mnt/x"], ["backup", "list", "/mnt/x"]),
        (["backup", "--help"], ["backup", "--help"]),
        (["backup"], ["backup"]),
        (["search", "backup"], ["search", "backup"]),
        ([], []),
    ],
)
def test_a_destination_stands_where_a_command_is_left_out(
    given: list[str], meant: list[str]
) -> None:
    assert list(complete(given)) == meant


@pytest.mark.usefixtures("conversation")
def test_a_store_is_backed_up_and_restored(engram: Engram, tmp_path: Path) -> None:
    place = str(tmp_path / "backups")

    made = engram.process("backup", place, "--json").json
    listed = engram("backup", "list", "--json").json
    verified = engram("backup", "verify", "--json").json
    restored = engram("restore", place, "--home", str(tmp_path / "new"), "--json").json

    assert made["files_copied"] == 2
    assert [each["backup_id"] for each in listed["backups"]] == [made["backup_id"]]
    assert verified["findings"] == []
    assert restored["counts"]["messages"] == 3
    assert Engram(tmp_path / "new")("doctor", "--json").json["findings"] == []


@pytest.mark.usefixtures("conversation")
def test_status_and_doctor_say_when_the_last_backup_was_made(
    engram: Engram, tmp_path: Path
) -> None:
    before = engram("status").stdout
    made = engram("backup", "create", str(tmp_path / "backups"), "--json").json
    (tmp_path / "blocked").write_text("a file, where a directory is needed")
    failed = engram("backup", "create", str(tmp_path / "blocked"))

    assert "last backup" in before
    assert "never" in before.partition("last backup")[2].splitlines()[0]
    assert made["instant"][:16] in engram("status").stdout
    assert failed.status == 1
    assert "backup_unavailable" in failed.stderr
    doctor = engram("doctor")
    assert f"in {tmp_path / 'backups'}" in doctor.stderr
    assert "the last attempt failed" in doctor.stderr
    known = engram("doctor", "--json").json["backups"]
    assert [each["failure"] is None for each in known] == [True, False]


@pytest.mark.usefixtures("conversation")
def test_a_damaged_backup_fails_its_rehearsal(engram: Engram, tmp_path: Path) -> None:
    engram("backup", "create", str(tmp_path / "backups"))
    (damaged, *_) = (tmp_path / "backups/objects").glob("*/*.zst")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")

    verified = engram("backup", "verify", "--json")

    assert verified.status == 1
    assert json.loads(verified.stderr)["error"]["code"] == "backup_damaged"


def test_a_database_is_backed_up_by_its_own_tools(engram: Engram, tmp_path: Path) -> None:
    made = engram(
        "backup", "create", str(tmp_path / "backups"), database_url="postgresql://db/engram"
    )

    assert made.status == 2
    assert "docs/backup.md" in made.stderr


def test_where_no_store_is_nothing_is_created(engram: Engram, tmp_path: Path) -> None:
    made = engram("backup", "create", str(tmp_path / "backups"))

    assert made.status == 2
    assert "there is no store" in made.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--keep", "7 days"], "keep"),
        (["--every", "0h"], "every"),
        (["--recipient", "age1nobody"], "recipient"),
    ],
)
def test_a_wrong_option_is_named(engram: Engram, arguments: list[str], field: str) -> None:
    made = engram("backup", "create", "/nowhere", *arguments, "--json")

    assert made.status == 2
    assert json.loads(made.stderr)["error"]["field"] == field


def test_without_a_known_destination_it_has_to_be_named(engram: Engram) -> None:
    listed = engram("backup", "list")

    assert listed.status == 2
    assert "name the destination" in listed.stderr

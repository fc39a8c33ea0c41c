"""`engram documents`: files go in and come out byte for byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engram.embedding.choice import NoEmbedder
from engram.settings import Settings
from engram.wiring import open_service
from tests.cli.commands import Engram
from tests.promises import promise
from tests.service.bodies import TIER_1_BYTES, prose, store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with texts, what is no text, and what is hidden."""
    folder = tmp_path / "folder"
    (folder / "deeper").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "a.md").write_bytes(b"# A\r\n\r\nThe gantry is blue.\r\n")
    (folder / "deeper" / "b.txt").write_bytes("Die Fähre legt ab.".encode())
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    (folder / "empty.txt").write_bytes(b"")
    (folder / ".git" / "config").write_bytes(b"hidden")
    (folder / "link.md").symlink_to(folder / "a.md")
    return folder


def add(engram: Engram, *arguments: str) -> dict[str, str]:
    return engram("documents", "add", *arguments, "--json").json["documents"][0]


@promise("verbatim")
def test_a_file_comes_back_byte_for_byte(engram: Engram, folder: Path, tmp_path: Path) -> None:
    made = add(engram, str(folder / "a.md"), "--project", "harbour", "--tag", "blue")

    target = tmp_path / "out.md"
    saved = engram("documents", "get", made["id"], "-o", str(target), "--json").json
    piped = engram.process("documents", "get", made["document_id"])

    assert target.read_bytes() == (folder / "a.md").read_bytes()
    assert saved["sha256"] == made["sha256"]
    assert piped.stdout.encode() == (folder / "a.md").read_bytes()
    assert "gantry" in engram("search", "gantry").stdout


def test_a_large_file_is_indexed_before_the_command_ends(engram: Engram, tmp_path: Path) -> None:
    large = tmp_path / "large.md"
    large.write_bytes(prose(TIER_1_BYTES) + b"\nAt the very end a pangolin.\n")

    made = add(engram, str(large))

    assert (made["mode"], made["state"]) == ("document_synopsis", "indexed")
    assert "pangolin" in engram("search", "pangolin").stdout


def test_of_a_folder_the_texts_are_kept_and_the_rest_is_told(engram: Engram, folder: Path) -> None:
    answer = engram("documents", "add", str(folder), "--recursive", "--json").json

    assert [each["name"] for each in answer["documents"]] == ["a.md", "deeper/b.txt"]
    skipped = {Path(each["path"]).name: each["reason"] for each in answer["skipped"]}
    assert set(skipped) == {"empty.txt", "picture.png"}
    assert "byte 0" in skipped["picture.png"]


def test_a_folder_needs_to_be_asked_for(engram: Engram, folder: Path) -> None:
    outcome = engram("documents", "add", str(folder))

    assert outcome.status == 2
    assert "--recursive" in outcome.stderr


def test_a_named_file_that_is_refused_fails_the_command_and_keeps_the_others(
    engram: Engram, folder: Path
) -> None:
    outcome = engram("documents", "add", str(folder / "picture.png"), str(folder / "a.md"))

    assert outcome.status == 1
    assert outcome.stdout.startswith("mem_")
    assert "skipped" in outcome.stderr
    assert engram("documents", "list", "--json").json["total"] == 1


def test_a_file_that_is_not_there_is_named_and_nothing_is_kept(
    engram: Engram, folder: Path
) -> None:
    outcome = engram("documents", "add", str(folder / "a.md"), str(folder / "missing.md"))

    assert outcome.status == 2
    assert "missing.md" in outcome.stderr
    assert engram("documents", "list", "--json").json["total"] == 0


def test_a_file_past_the_limit_is_refused(engram: Engram, folder: Path) -> None:
    outcome = engram("documents", "add", str(folder / "a.md"), raw_document_max_bytes="10")

    assert outcome.status == 1
    assert "at most 10 bytes" in outcome.stderr
    assert engram("documents", "list", "--json").json["total"] == 0


def test_the_same_file_again_is_told(engram: Engram, folder: Path) -> None:
    first = add(engram, str(folder / "a.md"))

    again = engram("documents", "add", str(folder / "a.md"))

    assert again.stdout.strip() == first["id"]
    assert "already stored" in again.stderr


def test_documents_are_listed_shown_and_removed(engram: Engram, folder: Path) -> None:
    made = add(engram, str(folder / "a.md"), "--project", "harbour")

    listed = engram("documents", "list", "--project", "harbour").stdout
    shown = engram("documents", "show", made["id"]).stdout
    unasked = engram("documents", "remove", made["id"], "--forever")
    removed = engram("documents", "remove", made["id"], "--forever", "--yes")

    assert made["id"] in listed
    assert "a.md" in listed
    assert made["sha256"] in shown
    assert "indexed" in shown
    assert unasked.status == 2
    assert removed.status == 0
    assert engram("documents", "show", made["id"]).status == 2


def test_a_target_that_cannot_be_written_is_named(
    engram: Engram, folder: Path, tmp_path: Path
) -> None:
    made = add(engram, str(folder / "a.md"))

    outcome = engram("documents", "get", made["id"], "-o", str(tmp_path / "no" / "where"))

    assert outcome.status == 2
    assert "cannot be written" in outcome.stderr


def test_what_was_left_waiting_is_indexed_by_the_command_for_it(
    engram: Engram, tmp_path: Path
) -> None:
    async def leave_waiting() -> str:
        settings = Settings(home=engram.home, embedder=NoEmbedder())
        async with open_service(settings) as service:
            me = await service.access.local_principal()
            return (await store(service, me, prose(TIER_1_BYTES))).document.id

    document_id = asyncio.run(leave_waiting())
    waiting = engram("documents", "show", document_id, "--json").json
    engram("index")

    assert (waiting["state"], waiting["progress"]) == ("indexing", 0.0)
    assert engram("documents", "show", document_id, "--json").json["state"] == "indexed"

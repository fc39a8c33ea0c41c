"""`engram migrate` between a directory and a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import IsPartialDict, IsPositiveInt

from tests.cli.commands import Engram
from tests.postgres.servers import Server


@pytest.fixture
def blank_url(postgres_server: Server) -> Iterator[str]:
    """Yield the address of a database that nobody has used yet."""
    postgres_server.execute("CREATE DATABASE blank")
    yield postgres_server.socket_url("blank")
    postgres_server.execute("DROP DATABASE blank WITH (FORCE)")


def found(engram: Engram, **variables: str) -> Any:
    """Return what a search finds, with its scores."""
    return engram("search", "hotel", "--json", **variables).json["results"]


def test_store_goes_to_postgres_and_back_and_is_searched_everywhere(
    engram: Engram, conversation: str, blank_url: str, tmp_path: Path
) -> None:
    before = found(engram)
    back = Engram(tmp_path / "back")

    there = engram("migrate", "sqlite-to-postgres", "--database-url", blank_url, "--json").json
    home = back("migrate", "postgres-to-sqlite", "--json", database_url=blank_url).json

    organization = IsPartialDict(name="local", was="new", rows=IsPositiveInt)
    assert {"dry_run": False, "organizations": [organization]} == there == home
    assert before
    assert before == found(engram, database_url=blank_url) == found(back)
    assert [] == back("doctor", "--json").json["findings"]
    assert conversation in back("conversations", "list").stdout


def test_dry_run_counts_and_makes_nothing(
    engram: Engram, conversation: str, blank_url: str, postgres_server: Server, tmp_path: Path
) -> None:
    assert conversation
    nowhere = Engram(tmp_path / "nowhere")

    there = engram("migrate", "sqlite-to-postgres", "--dry-run", database_url=blank_url)

    assert "to copy" in there.stdout
    assert "nothing was changed" in there.stderr
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname = 'engram'"
    assert [] == postgres_server.execute(schemas, database="blank")
    assert 0 == engram("migrate", "sqlite-to-postgres", database_url=blank_url).status
    back = nowhere("migrate", "postgres-to-sqlite", "--dry-run", "--json", database_url=blank_url)
    assert ["new"] == [each["was"] for each in back.json["organizations"]]
    assert not nowhere.home.exists()


def test_second_run_says_that_there_is_nothing_to_do(
    engram: Engram, conversation: str, blank_url: str
) -> None:
    assert conversation
    engram("migrate", "sqlite-to-postgres", database_url=blank_url)

    again = engram("migrate", "sqlite-to-postgres", database_url=blank_url)

    assert 0 == again.status
    assert "already moved" in again.stdout
    assert "0 organisations moved" in again.stderr
    assert "match" not in again.stderr


def test_moved_store_refuses_writes_and_names_its_new_address_without_secrets(
    engram: Engram, conversation: str, blank_url: str
) -> None:
    assert conversation
    with_password = blank_url.replace("postgresql://", "postgresql://root:secret@", 1)
    url = with_password if "@" not in blank_url else blank_url
    engram("migrate", "sqlite-to-postgres", database_url=url)

    refused = engram("notes", "add", "written to the place of yesterday")

    assert 1 == refused.status
    assert "error: store_moved" in refused.stderr
    assert "/blank" in refused.stderr
    assert "secret" not in refused.stderr
    assert 0 == engram("search", "hotel").status


@pytest.mark.parametrize("direction", ["sqlite-to-postgres", "postgres-to-sqlite"])
def test_empty_sources_are_refused(engram: Engram, blank_url: str, direction: str) -> None:
    outcome = engram("migrate", direction, database_url=blank_url)

    assert 2 == outcome.status
    assert "error: conflict" in outcome.stderr
    assert "no store" in outcome.stderr


def test_organisation_that_the_target_has_is_not_overwritten(
    engram: Engram, conversation: str, blank_url: str
) -> None:
    assert conversation
    engram("migrate", "sqlite-to-postgres", database_url=blank_url)

    outcome = engram("migrate", "postgres-to-sqlite", database_url=blank_url)

    assert 2 == outcome.status
    assert "was not moved there" in outcome.stderr


def test_database_has_to_be_named(engram: Engram) -> None:
    outcome = engram("migrate", "sqlite-to-postgres")

    assert 2 == outcome.status
    assert "ENGRAM_DATABASE_URL" in outcome.stderr


def test_organisation_has_to_exist(engram: Engram, conversation: str, blank_url: str) -> None:
    assert conversation

    outcome = engram("migrate", "sqlite-to-postgres", "--org", "org_x", database_url=blank_url)

    assert 2 == outcome.status
    assert "org_x" in outcome.stderr

"""`python -m tools.cluster`: the documented steps and the contract on a server that is there already."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.servers import Server, url_of

_ROOT = Path(__file__).parents[2]
_DATABASE, _OWNER = "engram_verified", "engram_keeper"
_TIMEOUT_S = 240


@pytest.fixture
def owned_url(postgres_server: Server) -> Iterator[str]:
    """Yield the address of an empty database for its owner, who is no superuser."""
    postgres_server.execute(f"CREATE ROLE {_OWNER} LOGIN CREATEROLE")
    # Roles are of the whole server, and another database has made this one.
    postgres_server.execute(f"GRANT engram_app TO {_OWNER} WITH ADMIN OPTION")
    postgres_server.execute(f"CREATE DATABASE {_DATABASE} OWNER {_OWNER}")
    postgres_server.execute("CREATE EXTENSION vector", database=_DATABASE)
    yield url_of((postgres_server,), _DATABASE).replace("postgres@", f"{_OWNER}@")
    postgres_server.execute(f"DROP DATABASE {_DATABASE} WITH (FORCE)")
    postgres_server.execute(f"DROP OWNED BY {_OWNER}")
    postgres_server.execute(f"DROP ROLE {_OWNER}")


def verify(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.cluster", url, *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )


def test_a_plain_server_is_verified_by_a_user_that_is_no_superuser_and_left_as_it_was(
    postgres_server: Server, owned_url: str
) -> None:
    chosen = "postgres and (comes_back_with_everything or found_by_their_words or backfill_brings)"

    done = verify(owned_url, "-k", chosen)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = dict(re.findall(r"^(\w+) {2,}(.+)$", done.stdout, re.MULTILINE))
    assert lines["system"].endswith("no Citus")
    assert lines["user"] == f"{_OWNER}, not a superuser"
    assert lines["distribute"].startswith("not available: the server has no Citus")
    assert re.match(r"2 passed, 0 failed, 1 left out", lines["contract"])
    assert "says nothing of Citus" in done.stdout
    left = postgres_server.execute(
        "SELECT to_regnamespace('engram') IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM pg_roles WHERE rolname LIKE 'engram_verify%%')",
        database=_DATABASE,
    )
    assert left == [(True,)]


def test_a_database_that_is_in_use_is_not_touched(database_url: str) -> None:
    refused = verify(database_url)

    assert refused.returncode == 1
    assert "has tables of Engram" in refused.stdout


def test_a_server_that_is_not_there_is_told() -> None:
    refused = verify("postgresql://owner@127.0.0.1:1/nothing")

    assert refused.returncode == 1
    assert "FAILED" in refused.stdout

"""Verify Engram on a PostgreSQL server or a Citus cluster that somebody has.

    python -m tools.cluster postgresql://owner:secret@coordinator/empty_database [arguments of pytest]

Carries out the steps of docs/citus.md as the owner of the database, who needs not be a superuser, runs the
storage contract as the user that `engram postgres setup` makes, and removes what it has made.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from engram.cli.databases import login_url
from engram.errors import ConflictError, EngramError
from engram.storage.postgres.citus import distribute, read_layout
from engram.storage.postgres.logins import set_up_login
from tests.postgres.on_cluster import run_contract

_ABOUT = """
SELECT current_setting('server_version'), current_user::text,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT extversion FROM pg_extension WHERE extname = 'citus'),
    to_regnamespace('engram') IS NOT NULL
"""
_PLACED = "SELECT count(*) FROM pg_dist_partition WHERE partmethod = 'h'"
_SERVERS = "SELECT count(*) FROM pg_dist_node WHERE shouldhaveshards"


@dataclass(frozen=True, slots=True)
class About:
    """What a database says of itself."""

    version: str
    user: str
    is_superuser: bool
    vector: str | None
    citus: str | None
    is_used: bool

    @property
    def system(self) -> str:
        """The programs and their versions."""
        citus = "no Citus" if self.citus is None else f"Citus {self.citus}"
        return f"PostgreSQL {self.version}, pgvector {self.vector or 'not installed'}, {citus}"


def look(url: str) -> About:
    """Return what the database is."""
    with psycopg.connect(url) as driver:
        row = driver.execute(_ABOUT).fetchone()
    assert row is not None
    return About(*row)


def spread(url: str) -> str:
    """Distribute the tables; return what became of it."""
    try:
        steps = distribute(url)
    except ConflictError as exc:
        if look(url).citus is not None:
            raise
        return f"not available: {exc.message}"
    again = distribute(url)
    with psycopg.connect(url) as driver:
        tables = len(read_layout(driver).tenant)
        (placed,), (servers,) = (
            driver.execute(each).fetchone() or (0,) for each in (_PLACED, _SERVERS)
        )
    return f"{len(steps)} statements, {len(again)} when repeated; {placed} of {tables} tables on {servers} servers"


@contextmanager
def removed_afterwards(url: str, login: str) -> Generator[None]:
    """Remove the tables and the user at the end, however that comes."""
    try:
        yield
    finally:
        with psycopg.connect(url, autocommit=True) as driver:
            driver.execute("DROP SCHEMA IF EXISTS engram CASCADE")
            driver.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(login)))


def verify(url: str, arguments: list[str]) -> bool:
    """Carry out the steps and print what became of each; return whether all is well."""
    about = look(url)
    say("system", about.system)
    say("user", f"{about.user}, {'a' if about.is_superuser else 'not a'} superuser")
    if about.is_used:
        say("stopped", "the database has tables of Engram; give one that was made for this")
        return False
    login = f"engram_verify_{secrets.token_hex(4)}"
    with removed_afterwards(url, login):
        say("distribute", spread(url))
        made = set_up_login(url, login=login)
        say("setup", f"the tables are there; servers log in as {login}")
        outcomes = run_contract(url, login_url(url, login, made.password), arguments)
        say("contract", told(outcomes))
    is_well = bool(outcomes["passed"]) and not outcomes["failed"]
    say("verified" if is_well else "FAILED", about.system)
    if about.citus is None:
        print("This says nothing of Citus: the server has none.")
    return is_well


def told(outcomes: Counter[str]) -> str:
    """Return how many tests had which outcome."""
    return (
        f"{outcomes['passed']} passed, {outcomes['failed']} failed, "
        f"{outcomes['skipped']} left out (they damage rows, which needs a superuser)"
    )


def say(step: str, result: str) -> None:
    """Print one line of the report."""
    print(f"{step:<12}{result}", flush=True)


def main() -> int:
    """Verify the database of the command line; return 1 if anything fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description=__doc__)
    parser.add_argument("url", help="URL of an empty database for its owner")
    given, arguments = parser.parse_known_args()
    try:
        return int(not verify(given.url, arguments))
    except EngramError as exc:
        say("FAILED", exc.message)
    except psycopg.Error as exc:
        say("FAILED", str(exc).strip())
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""`engram postgres distribute`: which tables go where on a Citus cluster, and in which order.

Citus is on no server of these tests. Where its functions are called, functions of ours stand in for
them that write down their calls: this proves what is asked of Citus, not what Citus makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from engram.errors import ConflictError
from engram.storage.postgres.sharding import Layout, distribute, read_layout
from tests.cli.commands import Engram
from tests.postgres.databases import as_owner

STAND_IN = """
CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY);
CREATE TABLE call (number bigint GENERATED ALWAYS AS IDENTITY, "table" text, "column" text, "like" text);
CREATE FUNCTION create_reference_table(table_name text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO call ("table") VALUES (table_name);
    INSERT INTO pg_dist_partition VALUES (table_name::regclass);
$$;
CREATE FUNCTION create_distributed_table(
    table_name regclass, distribution_column text, colocate_with text DEFAULT 'default'
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO call ("table", "column", "like")
    VALUES (table_name::text, distribution_column, colocate_with);
    INSERT INTO pg_dist_partition VALUES (table_name);
$$;
"""

Call = tuple[str, str | None, str | None]


@pytest.fixture
def database_url(database_url: str) -> str:
    """Return the address for the owner of the tables, who alone may spread them."""
    return as_owner(database_url)


@pytest.fixture
def cluster(database_url: str) -> Iterator[str]:
    """Yield the address of a database that writes down what Citus would be asked."""
    with psycopg.connect(database_url, autocommit=True) as driver:
        driver.execute(STAND_IN)
    yield database_url
    with psycopg.connect(database_url, autocommit=True) as driver:
        # Other databases of this server have the role too.
        driver.execute("ALTER ROLE engram_app NOLOGIN")


def layout_of(url: str) -> Layout:
    with psycopg.connect(url) as driver:
        return read_layout(driver)


def calls_of(url: str) -> list[Call]:
    with psycopg.connect(url) as driver:
        rows = driver.execute('SELECT "table", "column", "like" FROM call ORDER BY number')
        return [(table.removeprefix("engram."), column, like) for table, column, like in rows]


def test_every_table_is_placed_once_behind_those_it_refers_to(cluster: str) -> None:
    layout = layout_of(cluster)

    distribute(cluster)

    calls = calls_of(cluster)
    assert tuple(table for table, _, _ in calls) == layout.control + layout.tenant
    assert {column for table, column, _ in calls if table in layout.tenant} == {"organization_id"}


def test_all_rows_of_an_organisation_are_placed_together(cluster: str) -> None:
    first, *others = layout_of(cluster).tenant

    distribute(cluster)

    like = {table: like for table, column, like in calls_of(cluster) if column}
    assert like.pop(first) == "none"
    assert set(like) == set(others)
    assert set(like.values()) == {f"engram.{first}"}


def test_the_vectors_of_big_organisations_stay_where_they_are(cluster: str) -> None:
    distribute(cluster)

    assert not any(table.startswith("near_vector") for table, _, _ in calls_of(cluster))


def test_what_is_distributed_is_left_alone(cluster: str) -> None:
    distribute(cluster)
    before = calls_of(cluster)

    distribute(cluster)

    assert calls_of(cluster) == before


def test_what_was_cut_short_goes_on(cluster: str) -> None:
    distribute(cluster)
    whole = calls_of(cluster)
    with psycopg.connect(cluster) as driver:
        driver.execute("TRUNCATE call")
        driver.execute(
            "DELETE FROM pg_dist_partition WHERE logicalrelid IN "
            "('engram.api_key'::regclass, 'engram.message'::regclass)"
        )

    distribute(cluster)

    assert calls_of(cluster) == [
        ("api_key", None, None),
        ("message", "organization_id", whole[-1][2]),
    ]


def test_workers_learn_whose_rows_a_transaction_sees(cluster: str) -> None:
    distribute(cluster)

    with psycopg.connect(cluster, autocommit=True) as driver:
        passed_on = driver.execute("SHOW citus.propagate_set_commands").fetchone()
        role = driver.execute(
            "SELECT rolcanlogin, rolbypassrls, rolsuper FROM pg_roles WHERE rolname = 'engram_app'"
        ).fetchone()
    assert passed_on == ("local",)
    assert role == (True, False, False)


def test_a_server_without_citus_is_refused_with_what_is_missing(database_url: str) -> None:
    with pytest.raises(ConflictError, match="CREATE EXTENSION citus"):
        distribute(database_url)


def test_the_command_shows_its_statements_and_runs_none(cluster: str, tmp_path: Path) -> None:
    engram = Engram(tmp_path)
    command = ("postgres", "distribute", "--database-url", cluster, "--dry-run")

    shown = engram(*command)
    answer = engram(*command, "--json").json

    assert shown.status == 0
    assert calls_of(cluster) == []
    assert "nothing was changed" in shown.stderr
    statements = [each["statement"] for each in answer["statements"]]
    assert "-- coordinator\n" + "".join(f"{each};\n" for each in statements) == shown.stdout
    tables = re.findall(r"_table\('engram\.(\w+)'", shown.stdout)
    assert tuple(tables) == layout_of(cluster).control + layout_of(cluster).tenant


def test_the_command_says_what_is_missing(database_url: str, tmp_path: Path) -> None:
    refused = Engram(tmp_path)("postgres", "distribute", "--database-url", database_url)

    assert refused.status == 2
    assert "no Citus" in refused.stderr


def test_the_command_needs_a_database(tmp_path: Path) -> None:
    refused = Engram(tmp_path)("postgres", "distribute")

    assert refused.status != 0
    assert "ENGRAM_DATABASE_URL" in refused.stderr


def test_shard_shows_its_statements_without_secrets_and_runs_none(
    database_url: str, tmp_path: Path
) -> None:
    servers = [f"postgresql://owner:hush@{name}/engram" for name in ("one.test", "two.test")]

    shown = Engram(tmp_path)(
        "postgres", "shard", "--database-url", database_url, "--dry-run",
        "--server", servers[0], "--server", servers[1],
    )  # fmt: skip

    assert shown.status == 0
    assert "hush" not in shown.stdout
    assert """"password" '***'""" in shown.stdout
    parts = re.findall(r'\nCREATE FOREIGN TABLE "engram_shard_(\d)"."(\w+)"', shown.stdout)
    tenant = layout_of(database_url).tenant
    assert sorted(parts) == sorted((place, table) for table in tenant for place in "01")
    with psycopg.connect(database_url) as driver:
        left = driver.execute("SELECT count(*) FROM pg_foreign_server").fetchone()
    assert left == (0,)


@pytest.mark.parametrize("server", ["not an address", "postgresql://h/one"])
def test_shard_refuses_addresses_that_are_none_or_given_twice(
    database_url: str, tmp_path: Path, server: str
) -> None:
    refused = Engram(tmp_path)(
        "postgres", "shard", "--database-url", database_url, "--dry-run",
        "--server", server, "--server", "postgresql://h/one",
    )  # fmt: skip

    assert refused.status == 2
    assert "server" in refused.stderr

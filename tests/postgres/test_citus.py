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

from engram.errors import ConflictError, StorageError
from engram.storage.postgres.citus import Layout, distribute, read_layout
from tests.cli.commands import Engram
from tests.postgres.databases import as_owner
from tests.postgres.servers import Server

STAND_IN = """
CREATE TABLE pg_dist_node (nodename text, nodeport int, isactive bool, shouldhaveshards bool);
INSERT INTO pg_dist_node VALUES ('coordinator', 5432, true, false), ('one', 5432, true, true);
CREATE TABLE pg_dist_partition
    (logicalrelid regclass PRIMARY KEY, partmethod "char", colocationid int);
CREATE TABLE call (number bigint GENERATED ALWAYS AS IDENTITY, "table" text, "column" text, "like" text);
CREATE TABLE broken ("table" regclass);
CREATE FUNCTION create_distributed_table(
    table_name regclass, distribution_column text, colocate_with text DEFAULT 'default'
) RETURNS void LANGUAGE sql AS $$
    SELECT 1 / (SELECT count(*) - 1 FROM broken WHERE "table" = table_name);
    INSERT INTO call ("table", "column", "like")
    VALUES (table_name::text, distribution_column, colocate_with);
    INSERT INTO pg_dist_partition VALUES (table_name, 'h', 1);
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


def test_every_table_of_organisations_is_placed_once_behind_those_it_refers_to(
    cluster: str,
) -> None:
    distribute(cluster)

    calls = calls_of(cluster)
    assert tuple(table for table, _, _ in calls) == layout_of(cluster).tenant
    assert {column for _, column, _ in calls} == {"organization_id"}


def test_control_tables_stay_on_the_coordinator_where_no_other_server_is_needed(
    cluster: str,
) -> None:
    distribute(cluster)

    assert not {table for table, _, _ in calls_of(cluster)} & set(layout_of(cluster).control)


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
    with psycopg.connect(cluster) as driver:
        driver.execute("INSERT INTO broken VALUES ('engram.message')")

    with pytest.raises(StorageError):
        distribute(cluster)
    before = calls_of(cluster)
    with psycopg.connect(cluster) as driver:
        driver.execute("TRUNCATE broken")
    distribute(cluster)

    calls = calls_of(cluster)
    tables = [table for table, _, _ in calls]
    assert before
    assert calls[: len(before)] == before
    assert sorted(tables) == sorted(layout_of(cluster).tenant)
    assert {like for _, _, like in calls[1:]} == {f"engram.{tables[0]}"}


@pytest.mark.parametrize(
    ("obstacle", "named"),
    [
        (
            "CREATE POLICY slow ON engram.message USING (key = (SELECT 1))",
            "sub-select on engram.message",
        ),
        ("DELETE FROM pg_dist_node WHERE shouldhaveshards", "citus_add_node"),
        ("UPDATE pg_dist_node SET isactive = false WHERE nodename = 'one'", "one:5432"),
        (
            "INSERT INTO pg_dist_partition VALUES ('engram.meta', 'h', 1), ('engram.audit', 'h', 2)",
            "other ways: audit, meta",
        ),
        ("INSERT INTO pg_dist_partition VALUES ('engram.meta', 'n', 1)", "undistribute_table"),
    ],
)
def test_what_stands_in_the_way_is_found_before_the_first_table(
    cluster: str, obstacle: str, named: str
) -> None:
    with psycopg.connect(cluster) as driver:
        driver.execute(obstacle.encode())

    with pytest.raises(ConflictError, match=named):
        distribute(cluster)

    assert calls_of(cluster) == []
    with psycopg.connect(cluster) as driver:
        assert driver.execute(
            "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'engram_app'"
        ).fetchone() == (False,)


def test_a_user_that_does_not_own_the_tables_is_refused(cluster: str) -> None:
    with psycopg.connect(cluster) as driver:
        driver.execute("CREATE ROLE engram_passer LOGIN")
        driver.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO engram_passer")
        driver.execute("GRANT USAGE ON SCHEMA engram TO engram_passer")
        driver.execute("GRANT SELECT ON engram.migration TO engram_passer")
    try:
        with pytest.raises(ConflictError, match=r"does not own .*message.*ADMIN on that role"):
            distribute(cluster.replace("user=postgres", "user=engram_passer"))
    finally:
        with psycopg.connect(cluster) as driver:
            driver.execute("DROP OWNED BY engram_passer")
            driver.execute("DROP ROLE engram_passer")

    assert calls_of(cluster) == []


def test_a_dry_run_on_a_new_database_shows_all_and_leaves_nothing(
    postgres_server: Server, cluster: str
) -> None:
    name = "engram_new"
    postgres_server.execute(f"CREATE DATABASE {name}")
    url = postgres_server.socket_url(name)
    try:
        with psycopg.connect(url, autocommit=True) as driver:
            driver.execute(STAND_IN)

        shown = distribute(url, dry_run=True)

        with psycopg.connect(url) as driver:
            left = driver.execute("SELECT to_regnamespace('engram')").fetchone()
        assert left == (None,)
        statements = " ".join(statement for _, statement in shown)
        assert all(f"'engram.{table}'" in statements for table in layout_of(cluster).tenant)
    finally:
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_what_is_done_needs_no_further_statement(cluster: str) -> None:
    distribute(cluster)

    assert distribute(cluster) == []


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
    assert tuple(tables) == layout_of(cluster).tenant


def test_the_command_says_what_is_missing(database_url: str, tmp_path: Path) -> None:
    refused = Engram(tmp_path)("postgres", "distribute", "--database-url", database_url)

    assert refused.status == 2
    assert "no Citus" in refused.stderr


def test_the_command_needs_a_database(tmp_path: Path) -> None:
    refused = Engram(tmp_path)("postgres", "distribute")

    assert refused.status != 0
    assert "ENGRAM_DATABASE_URL" in refused.stderr

"""Row-level security that costs nothing for each row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engram.storage.postgres.citus import read_layout
from tests.postgres.databases import as_owner
from tests.postgres.statements import alternatives, tenant_statements, with_organization
from tests.promises import promise

_ONCE = re.compile(r"\s*(?:One-Time Filter|Index Cond|Recheck Cond):")


@pytest.fixture
def driver(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to a database as migrations make it."""
    with psycopg.connect(as_owner(database_url), autocommit=True) as driver:
        driver.execute("SET search_path = engram, public")
        yield driver


def plan(driver: psycopg.Connection[Any], statement: str) -> list[str]:
    """Return how the server would run a statement, or what it may be a part of."""
    for each in alternatives(statement):
        explained = f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {with_organization(each, 7)}"
        try:
            return [line for (line,) in driver.execute(explained.encode())]
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):
            continue
    raise AssertionError(statement)


@promise("apart")
def test_the_organisation_of_a_transaction_is_looked_up_once_and_not_for_each_row(
    driver: psycopg.Connection[Any],
) -> None:
    tables = set(read_layout(driver).tenant)
    driver.execute("SET ROLE engram_app")

    statements = list(tenant_statements(tables))
    plans = {name: plan(driver, text) for name, text in statements}

    conditions = {
        (name, line)
        for name, lines in plans.items()
        for line in lines
        if "engram.organization_id" in line
    }
    assert len(conditions) > 200
    of_each_row = {name for name, line in conditions if not _ONCE.match(line)}
    # Who looks for background work may see all of it; an organisation has a row for each kind.
    texts = dict(statements)
    assert [name for name in of_each_row if not re.search(r"\bdue\b", texts[name])] == []

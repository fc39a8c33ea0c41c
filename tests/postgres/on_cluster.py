"""Run the storage contract on one database that is there already, such as that of a cluster.

`python -m tools.cluster` does this. All tests share the database: before each the control tables are
emptied, and rows of organisations that nobody knows any more stay until the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from engram.storage.organization import OrganizationStore
from engram.storage.postgres.citus import read_layout
from tests.postgres import databases, raw_rows

_KEPT = {"migration", "control_state"}
_ROOT = Path(__file__).parents[2]


class Tally:
    """Counts the outcomes of tests."""

    def __init__(self) -> None:
        self.outcomes = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the outcome of a test, or a failure before or after it."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1


def run_contract(owner_url: str, server_url: str, arguments: Sequence[str]) -> Counter[str]:
    """Run the contract as the user of servers; return how many tests had which outcome."""

    @pytest.fixture
    def database_url() -> str:
        """Return the address of a database without organisations."""
        _remove_organizations(owner_url)
        return server_url

    # Before tests are imported, which take these by name.
    databases.database_url = database_url
    databases.present_database = lambda: server_url
    raw_rows.opened_rows = _refused_rows
    tally = Tally()
    options = ["-n", "0", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=short"]
    pytest.main(
        [
            *options,
            f"--rootdir={_ROOT}",
            str(_ROOT / "tests/storage"),
            "-k",
            "postgres",
            *arguments,
        ],
        plugins=[tally],
    )
    return tally.outcomes


def _remove_organizations(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as driver, driver.transaction():
        driver.execute("SET LOCAL engram.control = 'all'")
        for name in reversed(read_layout(driver).control):
            if name not in _KEPT:
                table = sql.Identifier("engram", name)
                driver.execute(sql.SQL("DELETE FROM {}").format(table))


@contextmanager
def _refused_rows(url: str, organization: OrganizationStore) -> Generator[raw_rows.RawRows]:
    """Leave out a test that damages rows, for which only a superuser has the rights."""
    del url, organization
    pytest.skip("damages rows, which needs a superuser")
    yield

